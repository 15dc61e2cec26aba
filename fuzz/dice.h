// Dice: the random choices of the generators, a pure function of (seed, stream name, how many were taken before).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"

namespace fp4sim::fuzz {

class Dice {
 public:
  Dice(uint64_t seed, std::string_view stream) : seed_(seed), stream_(stream_of(stream)) {}

  /// 32 random bits.
  uint32_t bits() {
    const uint64_t i = taken_++;
    if (i % 4 == 0) words_ = host_math::philox(seed_, i / 4, stream_, 0);
    return words_.w[i % 4];
  }
  /// A number in [0, n), n ≥ 1; the bias below 2^-32·n is of no account here.
  int64_t below(int64_t n) { return static_cast<int64_t>(bits()) * n >> 32; }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  /// True once in n times.
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class T, size_t N>
  const T& pick(const T (&table)[N]) {
    return table[below(N)];
  }

 private:
  uint64_t seed_;
  uint32_t stream_;
  uint64_t taken_ = 0;
  host_math::Words words_{};
};

}  // namespace fp4sim::fuzz
