#include "fuzz/elements.h"

#include <bit>

#include "reference/contract/error.h"
#include "reference/contract/hd.h"
#include "reference/contract/philox.h"

namespace fp4sim::fuzz {
namespace {

using host_math::Words;

constexpr uint32_t kFractionBits = 23;
constexpr uint32_t kFractionMask = (1u << kFractionBits) - 1;
constexpr uint32_t kMinNormal = 1u << kFractionBits;
constexpr int kBias = 127;

uint32_t sign_of(uint32_t w) { return w & kF32SignBit; }

/// ±2^exponent·1.fraction for an exponent in the normal range; below it the bits of the smallest normal numbers.
uint32_t make(uint32_t sign, int exponent, uint32_t fraction) {
  const int biased = exponent + kBias;
  return sign |
         static_cast<uint32_t>(biased < 1     ? 1
                               : biased > 254 ? 254
                                              : biased)
             << kFractionBits |
         (fraction & kFractionMask);
}

/// −1, 0 or +1 ulp in magnitude, mostly 0; magnitude 0 and Inf stay.
uint32_t nudge(uint32_t bits, uint32_t w) {
  const uint32_t magnitude = bits & kF32MagnitudeMask;
  if (magnitude == 0 || magnitude >= kF32Inf) return bits;
  if (w % 4 == 0) return bits - 1;
  if (w % 4 == 1 && magnitude < kF32Max) return bits + 1;
  return bits;
}

/// The sum of four bytes, centred: a cheap bell shape in steps of 2^-7 around 0, refined by the other words.
uint32_t bell(const Words& w, int64_t) {
  double sum = -510.0;
  for (int k = 0; k < 4; ++k) sum += static_cast<double>(w.w[0] >> (8 * k) & 255u);
  const double fine = static_cast<double>(w.w[1]) * 0x1p-32;
  return std::bit_cast<uint32_t>(static_cast<float>((sum + fine) / 148.0));
}

uint32_t half_integers(const Words& w, int64_t) {
  const auto k = static_cast<float>(static_cast<int32_t>(w.w[0] % 33) - 16);
  return std::bit_cast<uint32_t>(k * 0.5f) | (w.w[1] % 2 && k == 0 ? kF32SignBit : 0);
}

uint32_t gradient(const Words& w, int64_t i) {
  // Each run of 64 elements has its own magnitude 2^-24 … 2^-9, as the rows of a gradient have.
  const auto scale = static_cast<int>((static_cast<uint64_t>(i / 64) * 0x9E3779B97F4A7C15ull) >> 60) - 24;
  return std::bit_cast<uint32_t>(std::bit_cast<float>(bell(w, i)) * std::bit_cast<float>(make(0, scale, 0)));
}

uint32_t outliers(const Words& w, int64_t i) {
  const uint32_t b = bell(w, i);
  return w.w[2] % 50 == 0 ? std::bit_cast<uint32_t>(std::bit_cast<float>(b) * 96.0f) : b;
}

uint32_t wide(const Words& w, int64_t) { return make(sign_of(w.w[0]), static_cast<int>(w.w[1] % 81) - 40, w.w[2]); }

uint32_t any_finite(const Words& w, int64_t) {
  const uint32_t magnitude = w.w[0] & kF32MagnitudeMask;
  return sign_of(w.w[0]) | (magnitude >= kF32Inf ? magnitude - kF32Inf : magnitude);
}

/// Midpoints between neighbours of grids of 0 … 7 mantissa bits, with ±1 ulp, over a few binades.
uint32_t midpoints(const Words& w, int64_t) {
  const uint32_t mantissa_bits = w.w[1] % 8;
  const uint32_t significand = (w.w[2] & ((1u << mantissa_bits) - 1)) * 2 + 1;  // odd: half a step
  const uint32_t fraction = significand << (kFractionBits - 1 - mantissa_bits);
  return nudge(make(sign_of(w.w[0]), static_cast<int>(w.w[3] % 9) - 5, fraction), w.w[0]);
}

/// The E2M1 midpoints times a power of two near a scale boundary, with ±1 ulp.
uint32_t e2m1_midpoints(const Words& w, int64_t) {
  constexpr float kPoints[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 6.0f, 7.0f, 8.0f};
  const float scale = std::bit_cast<float>(make(0, static_cast<int>(w.w[1] % 3) - 1, 0));
  return nudge(std::bit_cast<uint32_t>(kPoints[w.w[2] % 10] * scale) | sign_of(w.w[0]), w.w[0]);
}

uint32_t powers(const Words& w, int64_t) {
  return nudge(make(sign_of(w.w[0]), static_cast<int>(w.w[1] % 33) - 16, 0), w.w[0]);
}

uint32_t subnormals(const Words& w, int64_t) {
  const uint32_t shift = w.w[1] % 24;
  if (w.w[2] % 8 == 0) return sign_of(w.w[0]) | nudge(kMinNormal << (w.w[1] % 3), w.w[0]);
  return sign_of(w.w[0]) | (w.w[3] & kFractionMask) >> shift;
}

uint32_t zeros(const Words& w, int64_t i) { return w.w[3] % 16 == 0 ? bell(w, i) : sign_of(w.w[0]); }

uint32_t cancelling(const Words& w, int64_t i) {
  // Neighbours nearly cancel: the large part depends on the pair alone.
  const auto pair = static_cast<uint32_t>((static_cast<uint64_t>(i / 2 + 1) * 0xD1342543DE82EF95ull) >> 40);
  const float large = std::bit_cast<float>(make(i % 2 == 0 ? 0 : kF32SignBit, 12, pair));
  return std::bit_cast<uint32_t>(large + std::bit_cast<float>(bell(w, i)));
}

uint32_t huge(const Words& w, int64_t) {
  constexpr uint32_t kNear[] = {kF32Max, kF32Max - 1, 0x7F000000u, 0x7F7F0000u, 0x7F400000u, 0x7E800000u};
  return sign_of(w.w[0]) | (w.w[1] % 4 == 0 ? kNear[w.w[2] % 6] : make(0, static_cast<int>(w.w[3] % 28) + 100, w.w[2]));
}

uint32_t nonfinite(const Words& w, int64_t i) {
  if (w.w[2] % 40 == 0) return sign_of(w.w[0]) | kF32Inf;
  if (w.w[2] % 40 == 1) return sign_of(w.w[0]) | kF32Inf | (w.w[1] & kFractionMask) | 1u;
  return bell(w, i);
}

/// A different row for each run of 32 elements.
uint32_t mixed(const Words& w, int64_t i);

const std::vector<Distribution>& rows() {
  static const std::vector<Distribution> table = {
      {"bell", "bell-shaped, width about 1", bell},
      {"half_integers", "multiples of 1/2 in [-8, 8]: ties, exact sums", half_integers},
      {"gradient", "bell-shaped, each run of 64 with its own small magnitude", gradient},
      {"outliers", "bell-shaped, 2 % of the elements 96 times larger", outliers},
      {"wide", "exponents -40 … 40", wide},
      {"any_finite", "every finite bit pattern", any_finite},
      {"midpoints", "midpoints of grids with 0 … 7 mantissa bits, ±1 ulp", midpoints},
      {"e2m1_midpoints", "E2M1 midpoints × powers of two, ±1 ulp", e2m1_midpoints},
      {"powers", "powers of two, ±1 ulp", powers},
      {"subnormals", "subnormal numbers, zeros and the smallest normal ones", subnormals},
      {"zeros", "±0 with a few numbers between", zeros},
      {"cancelling", "neighbours that nearly cancel", cancelling},
      {"huge", "numbers near FLT_MAX", huge},
      {"nonfinite", "bell-shaped with Inf and NaN lanes", nonfinite},
      {"mixed", "another row for each run of 32", mixed},
  };
  return table;
}

uint32_t mixed(const Words& w, int64_t i) {
  const auto choice = static_cast<uint64_t>(i / 32 + 1) * 0xBF58476D1CE4E5B9ull >> 32;
  return rows()[choice % (rows().size() - 1)].bits(w, i);
}

}  // namespace

const std::vector<Distribution>& distributions() { return rows(); }

const Distribution& find_distribution(std::string_view name) {
  std::string names;
  for (const Distribution& d : rows()) {
    if (name == d.name) return d;
    names += std::string(names.empty() ? "" : ", ") + d.name;
  }
  throw UsageError("unknown distribution `" + std::string(name) + "`; known: " + names);
}

std::vector<float> elements(const Distribution& distribution, uint64_t seed, std::string_view stream, int64_t n) {
  const uint32_t stream_id = stream_of(stream);
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const Words words = host_math::philox(seed, static_cast<uint64_t>(i), stream_id, 0);
    values[static_cast<size_t>(i)] = std::bit_cast<float>(distribution.bits(words, i));
  }
  return values;
}

}  // namespace fp4sim::fuzz
