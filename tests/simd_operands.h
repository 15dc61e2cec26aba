// Operands of random codes, scales and values for tests of products, and one product on every level and thread count.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "tests/product_oracle.h"
#include "tests/simd_levels.h"

namespace fp4sim::test {

using Random = std::mt19937_64;

/// Ordinary scales, every scale byte or binade, or extremes whose products leave binary32.
enum class Scales { ordinary, every, extreme };
inline constexpr Scales kScales[] = {Scales::ordinary, Scales::every, Scales::extreme};

inline uint8_t scale_byte(Random& random, bool e8m0, Scales kind) {
  constexpr uint8_t kExtreme[] = {0, 1, 2, 62, 63, 64, 127, 190, 191, 192, 253, 254};
  constexpr uint8_t kExtremeE4m3[] = {0, 1, 7, 8, 0x38, 0x7D, 0x7E};
  if (kind == Scales::ordinary) return static_cast<uint8_t>(e8m0 ? 117 + random() % 20 : 0x20 + random() % 0x30);
  if (kind == Scales::every) return static_cast<uint8_t>(random() % (e8m0 ? 256 : 128));
  if (random() % 100 == 0) return e8m0 ? 255 : 0x7F;
  return e8m0 ? kExtreme[random() % std::size(kExtreme)] : kExtremeE4m3[random() % std::size(kExtremeE4m3)];
}

/// ue formats: any byte but the NaN, which is in `extreme` alone.
inline uint8_t scale_byte(Random& random, const QuantSpec& spec, Scales kind) {
  if (spec.scale != ScaleFormat::ue) return scale_byte(random, spec.scale == ScaleFormat::e8m0, kind);
  const uint32_t nan = (1u << (spec.scale_exponent_bits + spec.scale_mantissa_bits)) - 1u;
  if (kind == Scales::extreme && random() % 50 == 0) return static_cast<uint8_t>(nan);
  return static_cast<uint8_t>(random() % nan);
}

inline float scale_float(Random& random, Scales kind) {
  if (kind == Scales::extreme && random() % 50 == 0) return std::numeric_limits<float>::quiet_NaN();
  const int range = kind == Scales::ordinary ? 8 : kind == Scales::every ? 250 : 290;
  const float x = std::ldexp(1.0f + static_cast<float>(random() % 8388608) * 0x1p-23f,
                             static_cast<int>(random() % static_cast<uint64_t>(range)) - range / 2);
  return std::isinf(x) ? std::numeric_limits<float>::max() : x;
}

/// Random codes of a vector or, for `edges`, its largest and smallest magnitudes, most of one sign: sums that need
/// every bit of the budget.
enum class Codes { random, specials, edges };

inline uint32_t random_code(Random& random, const ElementFormat& f, Codes kind) {
  const uint32_t half = 1u << (f.bits - 1);
  const auto code = static_cast<uint32_t>(random()) & (half - 1u + half);
  if (kind == Codes::edges && f.encoding == Encoding::twos_complement) {
    const uint32_t codes[] = {half, half, half, half - 1u, half + 1u, 1u, 2 * half - 1u};  // −128 first
    return codes[random() % 7];
  }
  if (kind == Codes::edges && f.bits < 32) {
    const uint32_t magnitudes[] = {max_normal_code(f), max_normal_code(f), max_normal_code(f) - 1u, 1u, 2u, 3u};
    return magnitudes[random() % 6] | (random() % 16 == 0 ? half : 0u);
  }
  const bool special = f.bits < 32 && (code & (half - 1u)) > max_normal_code(f);
  return special && (kind != Codes::specials || random() % 8 != 0) ? code & half : code;
}

/// A packed value of random codes and scales.
inline HostValue random_packed(Random& random, const Shape& shape, const QuantSpec& spec, Axis axis, Scales kind,
                               Codes codes) {
  HostValue v{{DType::packed, shape, spec, axis}, {}};
  for (const PartLayout& layout : part_layouts(v.type)) v.parts.emplace_back(static_cast<size_t>(layout.bytes));
  const MatrixView m = matrix_view(shape);
  const int bits = spec.element.bits;
  const auto row_bytes = static_cast<size_t>(code_row_bytes(v.type));
  for (size_t row = 0; row < static_cast<size_t>(m.matrices * m.rows); ++row)
    for (int64_t c = 0; c < m.cols; ++c) {
      const uint32_t code = random_code(random, spec.element, codes);
      for (int bit = 0; bit < bits; ++bit) {
        const auto position = static_cast<size_t>(c) * static_cast<size_t>(bits) + static_cast<size_t>(bit);
        v.parts[0][row * row_bytes + position / 8] |= static_cast<std::byte>(((code >> bit) & 1u) << (position % 8));
      }
    }
  if (v.parts.size() < 2) return v;
  if (spec.element.bias_auto) {
    const BiasRange range = user_bias_range(spec.element.exponent_bits, spec.element.mantissa_bits);
    const auto biases = static_cast<uint64_t>(range.highest - range.lowest + 1);
    const int bias = kind == Scales::ordinary ? 2 : range.lowest + static_cast<int>(random() % biases);
    v.parts[1] = to_bytes(std::vector<int32_t>{bias});
    return v;
  }
  const bool bytes = spec.scale != ScaleFormat::fp32;
  std::vector<float> floats;
  for (int64_t i = 0; i < scale_grid(v.type).count(); ++i) {
    if (bytes)
      v.parts[1][static_cast<size_t>(i)] = static_cast<std::byte>(scale_byte(random, spec, kind));
    else
      floats.push_back(scale_float(random, kind));
  }
  if (!bytes) v.parts[1] = to_bytes(floats);
  if (v.parts.size() == 3) v.parts[2] = to_bytes(std::vector<float>{scale_float(random, kind)});
  return v;
}

/// "f32" and "bf16" are the dtypes, everything else a spec.
inline HostValue random_operand(Random& random, const std::string& kind, const Shape& shape, Axis axis, Scales scales,
                                Fill fill) {
  if (kind == "f32") return f32_value(shape, random_floats(random(), element_count(shape), fill));
  if (kind == "bf16") {
    std::vector<uint16_t> x;
    for (const float f : random_floats(random(), element_count(shape), fill))
      x.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16));
    return bf16_value(shape, x);
  }
  constexpr Codes kCodes[] = {Codes::random, Codes::edges, Codes::specials};
  return random_packed(random, shape, parse_quant_spec(kind), axis, scales, kCodes[static_cast<int>(fill)]);
}

struct Sizes {
  int64_t matrices, m, n, k;  // matrices = 0: two-dimensional
};

struct Case {
  HostValue a, b;
  Axis a_axis, b_axis;
};

inline Shape operand_shape(const Sizes& s, int64_t vectors, Axis axis) {
  Shape shape;
  if (s.matrices > 0) shape.push_back(s.matrices);
  shape.push_back(axis == Axis::last ? vectors : s.k);
  shape.push_back(axis == Axis::last ? s.k : vectors);
  return shape;
}

inline Case make_case(uint64_t seed, const std::string& a, const std::string& b, const Sizes& s, Axis a_axis,
                      Axis b_axis, Scales scales, Fill fill) {
  Random random(seed);
  return {random_operand(random, a, operand_shape(s, s.m, a_axis), a_axis, scales, fill),
          random_operand(random, b, operand_shape(s, s.n, b_axis), b_axis, scales, fill), a_axis, b_axis};
}

/// Success if every level and thread count gives `want`, also under a hostile caller environment.
inline testing::AssertionResult levels_give(const std::vector<float>& want, Op op, const std::vector<HostValue>& in,
                                            const Attrs& attrs, std::initializer_list<int> thread_counts) {
  for (const simd::Level level : simd::available_levels())
    for (const int threads : thread_counts) {
      const auto backend = simd::make_backend(level, threads);
      std::vector<float> got;
      {
        const HostileEnvironment environment;
        got = floats(run_node(*backend, op, in, attrs)[0]);
      }
      if (simd::last_level_run() != level) return testing::AssertionFailure() << backend->name() << " did not run";
      if (const auto same = same_bits(got, want); !same)
        return testing::AssertionFailure() << backend->name() << ", " << threads << " threads: " << same.message();
    }
  return testing::AssertionSuccess();
}

}  // namespace fp4sim::test
