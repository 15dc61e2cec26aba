#include "reference/scalar/dot.h"

#include <bit>
#include <cmath>

#include "reference/contract/hd.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar {
namespace {

constexpr int kFractionBits = 23;
constexpr int kLeastExponent = -149;  // of the last bit of every binary32 number
constexpr int kMostExponent = 127;    // of the first bit

}  // namespace

float round_to_f32(int64_t integer, int exponent) {
  if (integer == 0) return 0.0f;
  const uint32_t sign = integer < 0 ? kF32SignBit : 0;
  const uint64_t magnitude = integer < 0 ? 0 - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
  const int leading = exponent + std::bit_width(magnitude) - 1;  // weight of the first bit
  if (leading > kMostExponent) return std::bit_cast<float>(sign | kF32Inf);

  // The result is `steps` units of 2^last; below the normal range `last` stays at −149.
  const int last = std::max(leading - kFractionBits, kLeastExponent);
  const int drop = last - exponent;
  uint64_t steps = 0;
  if (drop <= 0) {
    steps = magnitude << -drop;
  } else if (drop < 64) {
    steps = magnitude >> drop;
    const uint64_t rest = magnitude & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (steps & 1) != 0)) ++steps;
  } else if (drop == 64 && magnitude > uint64_t{1} << 63) {
    steps = 1;  // above half of the smallest subnormal; with drop > 64 the magnitude is below half
  }
  // Binary32 bit patterns count steps: 2^23 steps of the grid −149 are the first normal, and a carry out of the
  // fraction goes into the exponent, at the top into Inf.
  const int binade = last - kLeastExponent;
  const uint64_t bits = steps + (static_cast<uint64_t>(binade) << kFractionBits);
  return std::bit_cast<float>(sign | static_cast<uint32_t>(bits));
}

float fma_chain(const float* a, const float* b, int64_t n) {
  float acc = 0.0f;
  for (int64_t k = 0; k < n; ++k) acc = std::fma(a[k], b[k], acc);
  return acc;
}

float fp32_dot(const float* a, const float* b, int64_t n) {
  return sum_of_panels(n, [=](int64_t first, int64_t last) { return fma_chain(a + first, b + first, last - first); });
}

float exact_dot(const int64_t* a, const int64_t* b, int64_t n, int exponent) {
  int64_t sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (a[k] == kNotFinite || b[k] == kNotFinite) return std::bit_cast<float>(kF32CanonicalNaN);
    sum += a[k] * b[k];
  }
  return round_to_f32(sum, exponent);
}

}  // namespace fp4sim::scalar
