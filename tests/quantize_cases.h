// Inputs for tests of quantization: values drawn from corner tables, and comparison of results bit by bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "reference/contract/element_format.h"
#include "reference/contract/hd.h"
#include "tests/node_runner.h"

namespace fp4sim::test {

/// SplitMix64: the tests' own random numbers, the same on every run of a seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  /// Roughly normal: a sum of four uniform numbers, mean 0, range ±2.
  float bell() {
    float sum = -2.0f;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(bits() >> 40) * 0x1p-24f;
    return sum;
  }

 private:
  uint64_t state_;
};

enum class Values { bell, wide_bell, corners, any_bits, with_specials, tiny, huge, zeros };
inline constexpr Values kAllValues[] = {Values::bell,          Values::wide_bell, Values::corners, Values::any_bits,
                                        Values::with_specials, Values::tiny,      Values::huge,    Values::zeros};

/// A value where roundings change: a midpoint or a grid point of a 1- to 3-bit mantissa, or 2^k, times a power of two,
/// moved by −1, 0 or 1 ulp; either sign.
inline float corner(Draw& draw, int64_t exponent_span) {
  const auto sixteenths = static_cast<float>(16 + draw.below(16));
  const int exponent = static_cast<int>(draw.below(2 * exponent_span + 1) - exponent_span) - 4;
  const float exact = std::ldexp(sixteenths, exponent);
  const auto moved = std::bit_cast<uint32_t>(exact) + static_cast<uint32_t>(draw.below(3) - 1);
  return std::bit_cast<float>(moved | static_cast<uint32_t>(draw.below(2) << 31));
}

inline float special(Draw& draw) {
  constexpr uint32_t kSpecials[] = {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC12345u, 0x7F800001u};
  return std::bit_cast<float>(kSpecials[draw.below(5)]);
}

inline float value_of(Values kind, Draw& draw, float scale) {
  switch (kind) {
    case Values::bell: return draw.bell() * scale;
    case Values::wide_bell: return std::ldexp(draw.bell(), static_cast<int>(draw.below(40) - 20));
    case Values::corners: return corner(draw, 6) * scale;
    case Values::any_bits: return std::bit_cast<float>(static_cast<uint32_t>(draw.bits()));
    case Values::with_specials: return draw.below(40) == 0 ? special(draw) : draw.bell() * scale;
    case Values::tiny:
      return std::bit_cast<float>(static_cast<uint32_t>(draw.bits() & 0x80FFFFFFu) >> draw.below(2) * 8);
    case Values::huge: return std::bit_cast<float>((static_cast<uint32_t>(draw.bits()) & 0x81FFFFFFu) + 0x7D800000u);
    case Values::zeros: return draw.below(3) == 0 ? draw.bell() * scale : draw.below(2) == 0 ? 0.0f : -0.0f;
  }
  return 0;
}

inline std::vector<float> draw_values(Values kind, int64_t n, uint64_t seed) {
  Draw draw(seed);
  std::vector<float> x(static_cast<size_t>(n));
  float scale = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    // Neighbouring blocks get other magnitudes; some are zero as a whole.
    if (i % 32 == 0) scale = draw.below(12) == 0 ? 0.0f : std::ldexp(1.0f, static_cast<int>(draw.below(9) - 4));
    x[i] = value_of(kind, draw, scale);
  }
  return x;
}

/// Empty, or where two values differ: part and byte or element. Binary32 parts compare with any NaN equal to any NaN.
inline std::string difference(const HostValue& a, const HostValue& b) {
  if (!(a.type == b.type)) return "types " + to_string(a.type) + " and " + to_string(b.type);
  const std::vector<PartLayout> layouts = part_layouts(a.type);
  for (size_t p = 0; p < layouts.size(); ++p) {
    if (layouts[p].dtype != DType::f32) {
      for (size_t i = 0; i < a.parts[p].size(); ++i)
        if (a.parts[p][i] != b.parts[p][i])
          return std::string(layouts[p].name) + " byte " + std::to_string(i) + ": " +
                 std::to_string(static_cast<int>(a.parts[p][i])) + " and " +
                 std::to_string(static_cast<int>(b.parts[p][i]));
      continue;
    }
    const std::vector<uint32_t> u = elements<uint32_t>(a, p), v = elements<uint32_t>(b, p);
    for (size_t i = 0; i < u.size(); ++i) {
      const bool both_nan = (u[i] & kF32MagnitudeMask) > kF32Inf && (v[i] & kF32MagnitudeMask) > kF32Inf;
      if (u[i] != v[i] && !both_nan)
        return std::string(layouts[p].name) + " element " + std::to_string(i) + ": " +
               std::to_string(std::bit_cast<float>(u[i])) + " and " + std::to_string(std::bit_cast<float>(v[i])) +
               " (bits " + std::to_string(u[i]) + ", " + std::to_string(v[i]) + ")";
    }
  }
  return {};
}

/// A csr value cut to its entries: what lies beyond row_ptr's end is no part of the value.
inline HostValue entries_only(HostValue csr) {
  const int64_t total = elements<int64_t>(csr).back();
  const std::vector<PartLayout> layouts = part_layouts(csr.type);
  const int64_t capacity = static_cast<int64_t>(csr.parts[1].size()) / 4;
  for (size_t p = 1; p <= 2; ++p) {
    const int64_t width = capacity > 0 ? static_cast<int64_t>(csr.parts[p].size()) / capacity : 0;
    csr.parts[p].resize(static_cast<size_t>(total * width));
  }
  return csr;
}

}  // namespace fp4sim::test
