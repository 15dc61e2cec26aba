// Two order statistics at once by radix selection: four rounds of eight bits, each a histogram of the digit among the
// keys that share the digits found so far. Counting makes the result independent of the order of the work.
#pragma once

#include "gpu/bits.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

constexpr int kDigits = 256;
constexpr int kRounds = 4;
constexpr int kRanks = 2;

/// Words that order like the floats, −0 before +0; NaNs have no place in it.
FP4SIM_HD uint32_t order_key(float v) {
  const uint32_t bits = bits_of(v);
  return (bits & kF32SignBit) != 0 ? ~bits : bits | kF32SignBit;
}
FP4SIM_HD float key_value(uint32_t key) { return float_of((key & kF32SignBit) != 0 ? key & kF32MagnitudeMask : ~key); }

/// The leading digits found so far and the rank that is left among the keys which share them.
struct Selection {
  uint32_t prefix[kRanks];
  int64_t rank[kRanks];
};

FP4SIM_HD uint32_t digit_of(uint32_t key, int round) { return key >> (24 - 8 * round) & 0xFFu; }

/// True if a key has the digits found before `round`.
FP4SIM_HD bool shares_prefix(uint32_t key, uint32_t prefix, int round) {
  return round == 0 || key >> (32 - 8 * round) == prefix;
}

/// One warp appends to the selection's rank number `which` the digit in whose bin it lies.
template <class Count>
__device__ void append_digit(const Count* histogram, Selection& selection, int which) {
  constexpr int kBins = kDigits / kWarp;
  const int lane = threadIdx.x % kWarp;
  int64_t sum = 0;
  for (int b = 0; b < kBins; ++b) sum += static_cast<int64_t>(histogram[lane * kBins + b]);
  int64_t through = sum;  // keys in the bins of this lane and of those below
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int64_t below = __shfl_up_sync(kAllLanes, through, distance);
    if (lane >= distance) through += below;
  }
  const int64_t rank = selection.rank[which];
  __syncwarp();
  if (rank < through - sum || rank >= through) return;
  int64_t left = rank - (through - sum);
  int bin = lane * kBins;
  while (left >= static_cast<int64_t>(histogram[bin])) left -= static_cast<int64_t>(histogram[bin++]);
  selection.prefix[which] = selection.prefix[which] << 8 | static_cast<uint32_t>(bin);
  selection.rank[which] = left;
}

}  // namespace fp4sim::gpu
