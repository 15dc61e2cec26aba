// Random bits (numerics.md §3): Philox4x32-10 by counter.
#pragma once

#include "gpu/bits.cuh"
#include "reference/contract/philox.h"
#include "reference/contract/step_info.h"

namespace fp4sim::gpu {

struct PhiloxWords {
  uint32_t w[4];
};

/// The four words of a counter (number low, number high, stream, step) under key (seed low, seed high).
FP4SIM_HD PhiloxWords philox(uint64_t seed, uint64_t number, uint32_t stream, uint32_t step) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  PhiloxWords c{{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), stream, step}};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxMultiplier0} * c.w[0], p1 = uint64_t{kPhiloxMultiplier1} * c.w[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.w[1] ^ key0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.w[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return c;
}

/// Where the random bits of a tensor's elements come from; `step` is read on the device. Deterministic roundings have
/// no step and get zeros.
struct RandomSource {
  const StepInfo* step = nullptr;
  uint32_t stream = 0;
  uint64_t first = 0;  // index of the tensor's element 0 in the logical global tensor
};

/// Random bits of single elements; four neighbours share one evaluation.
class RandomBits {
 public:
  FP4SIM_HD explicit RandomBits(const RandomSource& source) : source_(source) {}

  /// The 32 bits of element i of the tensor: word i mod 4 of counter i/4.
  FP4SIM_HD uint32_t operator()(int64_t i) {
    if (source_.step == nullptr) return 0;
    const uint64_t index = source_.first + static_cast<uint64_t>(i);
    if (!evaluated_ || index / 4 != number_) {
      number_ = index / 4;
      words_ = philox(source_.step->seed, number_, source_.stream, source_.step->step);
      evaluated_ = true;
    }
    const uint32_t low = (index & 1) != 0 ? words_.w[1] : words_.w[0];
    const uint32_t high = (index & 1) != 0 ? words_.w[3] : words_.w[2];
    return (index & 2) != 0 ? high : low;
  }

 private:
  RandomSource source_;
  uint64_t number_ = 0;
  bool evaluated_ = false;
  PhiloxWords words_{};
};

}  // namespace fp4sim::gpu
