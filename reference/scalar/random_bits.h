// Random bits (numerics.md §3), through Random123's own Philox4x32-10.
#pragma once

#include <array>
#include <cstdint>

#include "reference/contract/step_info.h"

namespace fp4sim::scalar {

/// The four words of counter (counter low, counter high, stream, step) under key (seed low, seed high).
std::array<uint32_t, 4> philox_words(uint64_t seed, uint64_t counter, uint32_t stream, uint32_t step);

/// The 32 random bits of element i: word i mod 4 of counter i/4.
uint32_t random_bits(uint64_t seed, uint32_t stream, uint32_t step, uint64_t i);

/// The random bits of a tensor's elements by their row-major index in it; zeros under deterministic roundings.
class ElementBits {
 public:
  ElementBits() = default;
  /// `first` is the index of element 0 in the logical global tensor.
  ElementBits(const StepInfo& step, uint32_t stream, uint64_t first)
      : stochastic_(true), step_(step), stream_(stream), first_(first) {}
  uint32_t bits(int64_t i) const {
    return stochastic_ ? random_bits(step_.seed, stream_, step_.step, first_ + static_cast<uint64_t>(i)) : 0;
  }

 private:
  bool stochastic_ = false;
  StepInfo step_;
  uint32_t stream_ = 0;
  uint64_t first_ = 0;
};

}  // namespace fp4sim::scalar
