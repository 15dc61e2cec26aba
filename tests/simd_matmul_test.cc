// matmul and sparse_matmul on every level against the oracle of product_oracle.h and against scalar.
#include <gtest/gtest.h>

#include <random>

#include "tests/product_oracle.h"
#include "tests/simd_levels.h"

namespace fp4sim::test {
namespace {

using Random = std::mt19937_64;

/// Ordinary scales, every scale byte or binade, or extremes whose products leave binary32.
enum class Scales { ordinary, every, extreme };
constexpr Scales kScales[] = {Scales::ordinary, Scales::every, Scales::extreme};

uint8_t scale_byte(Random& random, bool e8m0, Scales kind) {
  constexpr uint8_t kExtreme[] = {0, 1, 2, 62, 63, 64, 127, 190, 191, 192, 253, 254};
  constexpr uint8_t kExtremeE4m3[] = {0, 1, 7, 8, 0x38, 0x7D, 0x7E};
  if (kind == Scales::ordinary) return static_cast<uint8_t>(e8m0 ? 117 + random() % 20 : 0x20 + random() % 0x30);
  if (kind == Scales::every) return static_cast<uint8_t>(random() % (e8m0 ? 256 : 128));
  if (random() % 100 == 0) return e8m0 ? 255 : 0x7F;
  return e8m0 ? kExtreme[random() % std::size(kExtreme)] : kExtremeE4m3[random() % std::size(kExtremeE4m3)];
}

/// ue formats: any byte but the NaN, which is in `extreme` alone.
uint8_t scale_byte(Random& random, const QuantSpec& spec, Scales kind) {
  if (spec.scale != ScaleFormat::ue) return scale_byte(random, spec.scale == ScaleFormat::e8m0, kind);
  const uint32_t nan = (1u << (spec.scale_exponent_bits + spec.scale_mantissa_bits)) - 1u;
  if (kind == Scales::extreme && random() % 50 == 0) return static_cast<uint8_t>(nan);
  return static_cast<uint8_t>(random() % nan);
}

float scale_float(Random& random, Scales kind) {
  if (kind == Scales::extreme && random() % 50 == 0) return std::numeric_limits<float>::quiet_NaN();
  const int range = kind == Scales::ordinary ? 8 : kind == Scales::every ? 250 : 290;
  const float x = std::ldexp(1.0f + static_cast<float>(random() % 8388608) * 0x1p-23f,
                             static_cast<int>(random() % static_cast<uint64_t>(range)) - range / 2);
  return std::isinf(x) ? std::numeric_limits<float>::max() : x;
}

/// Random codes of a vector or, for `edges`, its largest and smallest magnitudes, most of one sign: sums that need
/// every bit of the budget.
enum class Codes { random, specials, edges };

uint32_t random_code(Random& random, const ElementFormat& f, Codes kind) {
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
HostValue random_packed(Random& random, const Shape& shape, const QuantSpec& spec, Axis axis, Scales kind,
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
HostValue random_operand(Random& random, const std::string& kind, const Shape& shape, Axis axis, Scales scales,
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

Shape operand_shape(const Sizes& s, int64_t vectors, Axis axis) {
  Shape shape;
  if (s.matrices > 0) shape.push_back(s.matrices);
  shape.push_back(axis == Axis::last ? vectors : s.k);
  shape.push_back(axis == Axis::last ? s.k : vectors);
  return shape;
}

Case make_case(uint64_t seed, const std::string& a, const std::string& b, const Sizes& s, Axis a_axis, Axis b_axis,
               Scales scales, Fill fill) {
  Random random(seed);
  return {random_operand(random, a, operand_shape(s, s.m, a_axis), a_axis, scales, fill),
          random_operand(random, b, operand_shape(s, s.n, b_axis), b_axis, scales, fill), a_axis, b_axis};
}

/// Success if every level and thread count gives `want`, also under a hostile caller environment.
testing::AssertionResult levels_give(const std::vector<float>& want, Op op, const std::vector<HostValue>& in,
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

Attrs matmul_attrs(const Case& c) {
  return {{"a_axis", std::string(to_string(c.a_axis))}, {"b_axis", std::string(to_string(c.b_axis))}};
}

testing::AssertionResult matches_oracle(const Case& c, std::initializer_list<int> threads = {1}) {
  const std::vector<float> want = oracle_product(oracle_operand(c.a, c.a_axis), oracle_operand(c.b, c.b_axis));
  const auto result = levels_give(want, Op::matmul, {c.a, c.b}, matmul_attrs(c), threads);
  return result ? result
                : testing::AssertionFailure()
                      << to_string(c.a.type) << " " << to_string(c.a_axis) << " × " << to_string(c.b.type) << " "
                      << to_string(c.b_axis) << ": " << result.message();
}

struct SpecPair {
  const char *a, *b;
};
// Every engine and every rule of §7, with the pairs at the edges of the budget.
constexpr SpecPair kPairs[] = {
    {"f32", "f32"},
    {"bf16", "f32"},
    {"bf16:none", "fp16:none"},
    {"e2m1:none", "fp32"},
    {"e2m1:b32:e8m0", "f32"},
    {"bf16", "e4m3:tensor:fp32"},
    // blocks: int8, exact binary32, exact binary64, beyond the budget
    {"mxfp4", "mxfp4"},
    {"nvfp4", "nvfp4"},
    {"e2m1:b16:e4m3/one", "e2m1:b16:e8m0"},
    {"e2m1:b64:e8m0", "e2m1:b64:fp32"},
    {"e2m1:b128:fp32", "e2m1:b128:e8m0"},
    {"e2m1:b32:e8m0", "e2m3:b32:e8m0"},
    {"e2m3:b128:e8m0", "e2m3:b128:e8m0"},
    {"e3m2:b32:e8m0", "e2m1:b32:e4m3/te"},
    {"e3m2:b32:e8m0", "e3m2:b32:e8m0"},
    {"e4m3:b32:e8m0", "e2m1:b32:e8m0"},
    {"e4m3:b32:e8m0", "e4m3:b32:e8m0"},
    {"e5m2:b32:e8m0", "e2m1:b32:e8m0"},
    {"e5m2:b16:e8m0", "e3m2:b16:e8m0"},
    {"e5m2:b32:e8m0", "e4m3:b32:e8m0"},
    {"e5m2:b32:e8m0", "e5m2:b32:fp32"},
    // vectors
    {"e2m1:row:fp32", "e2m1:row:fp32"},
    {"e2m1:row:e4m3/te", "e2m1:tensor:fp32"},
    {"e2m1:row:e8m0", "e2m3:row:fp32"},
    {"e3m2:row:fp32", "e2m1:row:fp32"},
    {"e4m3:tensor:fp32", "e4m3:tensor:fp32"},
    {"e4m3:row:fp32", "e2m1:row:fp32/pow2"},
    {"e5m2:tensor:fp32", "e4m3:row:fp32"},
    // tiles, integers, user formats and scales, automatic biases
    {"e2m1:2d32:e8m0", "mxfp4"},
    {"nvfp4", "e2m1:2d16:e4m3/exact"},
    {"int8:b32:e8m0", "int8:b32:e8m0"},
    {"int4:b32:fp32", "e2m1:2d32:e8m0"},
    {"e3m0:b16:ue5m3/te", "e1m2:b16:ue3m4/one"},
    {"e5m2f:b32:e8m0", "e5m0f:2d32:fp32"},
    {"e4m1b90f:b16:ue8m0/one", "e2m1b149f:b16:e8m0"},
    {"e1m4f:b128:e8m0", "int8:b128:e4m3/one"},
    {"int8:row:fp32", "int4:tensor:fp32"},
    {"e4m2b-100f:row:fp32", "e3m1b20f:row:e8m0"},
    {"e2m1bautof:none", "e3m3bautof:none"},
    {"int8:b32:e8m0", "f32"},
    {"e2m1:col:fp32", "e2m1:row:fp32"},
    {"e2m1:2d16:e8m0", "e2m1:col:e4m3/te"},
    // sr34: both, one, decoded, vectors
    {"nvfp4+sr34", "e2m1:2d16:e4m3/te+sr34"},
    {"mxfp4+sr34", "mxfp4"},
    {"f32", "e2m1:none+sr34"},
    {"e4m3:row:fp32", "e2m1:tensor:fp32+sr34"},
    // other partitions
    {"mxfp4", "nvfp4"},
    {"mxfp4", "e2m1:row:fp32"},
    {"nvfp4", "e4m3:row:fp32"},
};

class MatmulPairs : public testing::TestWithParam<SpecPair> {};

TEST_P(MatmulPairs, have_the_oracles_bits_on_every_level) {
  constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 13, 14, 15, 16, 17, 29, 31, 32, 33, 47, 48, 49, 65};
  constexpr int64_t kDepths[] = {1,  2,  3,  4,   5,   15,  16,  17,  31,  32,  33,
                                 63, 64, 96, 127, 128, 130, 255, 256, 257, 300, 1030};
  Random random(7);
  for (int i = 0; i < 36; ++i) {
    Sizes s{static_cast<int64_t>(random() % 4 == 0 ? 1 + random() % 3 : 0), kSizes[random() % std::size(kSizes)],
            kSizes[random() % std::size(kSizes)], kDepths[random() % std::size(kDepths)]};
    while (std::max<int64_t>(s.matrices, 1) * s.m * s.n * s.k > 200'000) s.m = (s.m + 1) / 2, s.n = (s.n + 1) / 2;
    const Axis a_axis = i % 2 == 0 ? Axis::last : Axis::first, b_axis = i % 4 < 2 ? Axis::last : Axis::first;
    const Case c =
        make_case(random(), GetParam().a, GetParam().b, s, a_axis, b_axis, kScales[i % 3], kFills[i / 3 % 3]);
    ASSERT_TRUE(matches_oracle(c)) << "case " << i;
  }
}

TEST_P(MatmulPairs, have_scalars_bits_on_every_level) {
  Random random(11);
  for (int i = 0; i < 6; ++i) {
    const Sizes s{i % 3 == 0 ? 2 : 0, 5 + 9 * i, 33 - 5 * i, 40 + 11 * i};
    const Axis a_axis = i % 2 == 0 ? Axis::last : Axis::first, b_axis = i % 4 < 2 ? Axis::last : Axis::first;
    const Case c = make_case(random(), GetParam().a, GetParam().b, s, a_axis, b_axis, kScales[i % 3], kFills[i % 2]);
    ASSERT_TRUE(levels_give_scalar_bits(Op::matmul, {c.a, c.b}, matmul_attrs(c))) << "case " << i;
  }
}

std::string pair_name(const testing::TestParamInfo<SpecPair>& info) {
  std::string name = std::string(info.param.a) + "_x_" + info.param.b;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Products, MatmulPairs, testing::ValuesIn(kPairs), pair_name);

TEST(SimdMatmul, does_not_depend_on_the_number_of_threads) {
  // Work for two to seven workers: split by rows, by columns, and by matrices.
  for (const SpecPair& pair : {SpecPair{"f32", "f32"}, SpecPair{"mxfp4", "mxfp4"}, SpecPair{"nvfp4", "nvfp4"},
                               SpecPair{"e4m3:tensor:fp32", "e4m3:tensor:fp32"}, SpecPair{"bf16", "mxfp4"}})
    // n = 1024: rows of y 4 KiB apart.
    for (const Sizes& s :
         {Sizes{0, 170, 70, 288}, Sizes{0, 3, 1100, 1100}, Sizes{11, 33, 40, 130}, Sizes{0, 29, 1024, 64}}) {
      const Case c = make_case(static_cast<uint64_t>(s.m), pair.a, pair.b, s, Axis::last, Axis::first, Scales::ordinary,
                               Fill::ordinary);
      ASSERT_TRUE(matches_oracle(c, {1, 2, 7}));
    }
}

TEST(SimdMatmul, adds_panels_of_1024_in_ascending_order) {
  for (const SpecPair& pair : {SpecPair{"f32", "f32"}, SpecPair{"mxfp4", "mxfp4"}, SpecPair{"e4m3:b32:e8m0", "mxfp4"},
                               SpecPair{"e5m2:row:fp32", "e5m2:row:fp32"}, SpecPair{"e2m1:row:fp32", "e2m1:row:fp32"}})
    for (const int64_t k : {1023, 1024, 1025, 2048, 3100})
      for (const Axis axis : {Axis::last, Axis::first})
        ASSERT_TRUE(matches_oracle(make_case(static_cast<uint64_t>(k), pair.a, pair.b, {0, 15, 34, k}, axis, axis,
                                             Scales::ordinary, Fill::ordinary)));
}

TEST(SimdMatmul, without_depth_or_without_rows_gives_zeros_or_nothing) {
  for (const SpecPair& pair : {SpecPair{"f32", "f32"}, SpecPair{"mxfp4", "mxfp4"}, SpecPair{"nvfp4", "nvfp4"},
                               SpecPair{"e2m1:row:fp32", "e2m1:row:fp32"}})
    for (const Sizes& s : {Sizes{0, 3, 5, 0}, Sizes{0, 0, 5, 32}, Sizes{2, 3, 0, 32}, Sizes{0, 0, 0, 0}})
      EXPECT_TRUE(
          matches_oracle(make_case(3, pair.a, pair.b, s, Axis::last, Axis::last, Scales::every, Fill::ordinary)));
}

TEST(SimdMatmul, gives_plus_zero_for_an_exact_dot_of_zero) {
  // 1·1 + (−1)·1 = +0, also from −0 codes, under a block and under a row scale.
  for (const char* spec : {"e2m1:b16:e8m0", "e2m1:row:fp32", "e4m3:b32:e8m0", "e4m3:row:fp32"}) {
    Random random(1);
    const QuantSpec q = parse_quant_spec(spec);
    HostValue a = random_packed(random, {2, 16}, q, Axis::last, Scales::ordinary, Codes::random), b = a;
    const bool nibbles = q.element.bits == 4;
    const auto one = nibbles ? 0x2 : 0x38, minus = nibbles ? 0x8 : 0x80;
    for (size_t i = 0; i < a.parts[0].size(); ++i) a.parts[0][i] = b.parts[0][i] = std::byte(nibbles ? 0x88 : 0x80);
    const size_t row = a.parts[0].size() / 2;  // bytes
    b.parts[0][0] = a.parts[0][0] = std::byte(nibbles ? one | one << 4 : one);
    if (nibbles) {
      a.parts[0][0] = std::byte(one | (one | minus) << 4);
    } else {
      b.parts[0][1] = std::byte(one), a.parts[0][1] = std::byte(one | minus);
    }
    ASSERT_EQ(row, nibbles ? 8u : 16u);
    const Case c{a, b, Axis::last, Axis::last};
    ASSERT_TRUE(matches_oracle(c)) << spec;
    const auto y = floats(run_node(*simd::make_backend(1), Op::matmul, {a, b}, matmul_attrs(c))[0]);
    EXPECT_TRUE(same_bits(y[0], 0.0f)) << spec << " " << show_bits(y[0]);
  }
}

/// Long vectors of the largest magnitudes: int32 sums may not overflow.
TEST(SimdMatmul, sums_the_largest_elements_over_long_vectors) {
  for (const char* spec : {"e2m1:row:fp32", "e2m3:row:fp32", "e4m3:row:fp32"}) {
    Random random(5);
    const QuantSpec q = parse_quant_spec(spec);
    HostValue a = random_packed(random, {2, 640000}, q, Axis::last, Scales::ordinary, Codes::random);
    for (size_t i = 0; i < a.parts[0].size(); ++i)
      a.parts[0][i] = std::byte(q.element.bits == 8 ? 0x7E : q.element.bits == 4 ? 0x77 : 0);
    if (q.element.bits == 6)  // 011111 four times in three bytes
      for (size_t i = 0; i < a.parts[0].size(); i += 3)
        a.parts[0][i] = std::byte(0xDF), a.parts[0][i + 1] = std::byte(0xF7), a.parts[0][i + 2] = std::byte(0x7D);
    ASSERT_TRUE(matches_oracle({a, a, Axis::last, Axis::last})) << spec;
  }
}

// ---- sparse_matmul ----

HostValue random_csr(Random& random, const Shape& shape, const QuantSpec& spec, Axis axis) {
  HostValue v{{DType::csr, shape, spec, axis}, {}};
  for (const PartLayout& layout : part_layouts(v.type)) v.parts.emplace_back(static_cast<size_t>(layout.bytes));
  const VectorView view = vector_view(shape, axis);
  const int64_t capacity = csr_capacity(v.type);
  std::vector<int64_t> row_ptr{0};
  std::vector<int32_t> col(static_cast<size_t>(capacity), 0);
  for (int64_t row = 0; row < view.vectors; ++row) {
    int64_t entries = row_ptr.back();
    const bool none = spec.occ.residual == ResidualFormat::none;
    const int64_t limit = none ? 0 : capacity * (row + 1) / view.vectors;
    for (int64_t k = 0; k < view.length && entries < limit; ++k)
      if (random() % 3 == 0) col[static_cast<size_t>(entries++)] = static_cast<int32_t>(k);
    row_ptr.push_back(entries);
  }
  v.parts[0] = to_bytes(row_ptr), v.parts[1] = to_bytes(col);
  if (spec.occ.residual == ResidualFormat::fp32) {
    v.parts[2] = to_bytes(random_floats(random(), capacity, kFills[random() % 3]));
  } else {
    for (std::byte& b : v.parts[2]) b = static_cast<std::byte>(random());
  }
  if (v.parts.size() == 4) v.parts[3][0] = static_cast<std::byte>(random() % 4 == 0 ? random() : 110 + random() % 30);
  return v;
}

float oracle_residual(const HostValue& csr, size_t entry) {
  if (csr.type.spec.occ.residual == ResidualFormat::fp32) return floats(csr, 2)[entry];
  if (csr.type.spec.occ.residual == ResidualFormat::bf16)
    return std::bit_cast<float>(static_cast<uint32_t>(elements<uint16_t>(csr, 2)[entry]) << 16);
  QuantSpec e8m0;
  e8m0.scale = ScaleFormat::e8m0;
  return oracle_element(kE4m3, static_cast<uint32_t>(csr.parts[2][entry])).value * oracle_scale(e8m0, csr.parts[3], 0);
}

std::vector<float> oracle_sparse(const HostValue& csr, const HostValue& other, Axis other_axis, bool side_a) {
  const OracleOperand o = oracle_operand(other, other_axis);
  const auto row_ptr = elements<int64_t>(csr);
  const auto col = elements<int32_t>(csr, 1);
  const auto vectors = static_cast<int64_t>(row_ptr.size()) - 1;
  std::vector<float> residuals;
  for (size_t e = 0; e < static_cast<size_t>(row_ptr.back()); ++e) residuals.push_back(oracle_residual(csr, e));
  std::vector<float> y(static_cast<size_t>(vectors * o.vectors));
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t j = 0; j < o.vectors; ++j) {
      float acc = 0;
      for (auto e = static_cast<size_t>(row_ptr[static_cast<size_t>(v)]);
           e < static_cast<size_t>(row_ptr[static_cast<size_t>(v) + 1]); ++e)
        acc = std::fma(residuals[e], o.values[o.at(0, j, col[e])], acc);
      y[static_cast<size_t>(side_a ? v * o.vectors + j : j * vectors + v)] = acc;
    }
  return y;
}

TEST(SimdSparseMatmul, has_the_oracles_and_scalars_bits_on_every_level) {
  Random random(21);
  for (const char* text : {"mxfp4+occ(0.9,fp32)", "mxfp4+occ(0.9,bf16)", "mxfp4+occ(0.8,e4m3)",
                           "mxfp4+occ(0.95,fp32,tensor)", "mxfp4+occ(0.95,none)"})
    for (int i = 0; i < 12; ++i) {
      const int64_t vectors = 1 + static_cast<int64_t>(random() % 40), k = 1 + static_cast<int64_t>(random() % 90);
      const int64_t n = i % 3 == 0 ? 260 : 1 + static_cast<int64_t>(random() % 70);
      const Axis axis = i % 2 == 0 ? Axis::last : Axis::first, other_axis = i % 4 < 2 ? Axis::last : Axis::first;
      const bool side_a = i % 3 != 1;
      const HostValue csr =
          random_csr(random, axis == Axis::last ? Shape{vectors, k} : Shape{k, vectors}, parse_quant_spec(text), axis);
      const HostValue other = f32_value(other_axis == Axis::last ? Shape{n, k} : Shape{k, n},
                                        random_floats(random(), n * k, kFills[i % 3]));
      const Attrs attrs{{"side", std::string(side_a ? "a" : "b")}, {"other_axis", std::string(to_string(other_axis))}};
      ASSERT_TRUE(
          levels_give(oracle_sparse(csr, other, other_axis, side_a), Op::sparse_matmul, {csr, other}, attrs, {1, 2, 7}))
          << text << " case " << i;
      ASSERT_TRUE(levels_give_scalar_bits(Op::sparse_matmul, {csr, other}, attrs)) << text << " case " << i;
    }
}

TEST(SimdSparseMatmul, does_not_depend_on_the_number_of_threads) {
  Random random(4);
  const HostValue csr = random_csr(random, {300, 400}, parse_quant_spec("mxfp4+occ(0.9,fp32)"), Axis::last);
  const HostValue other = f32_value({310, 400}, random_floats(2, 310 * 400, Fill::ordinary));
  for (const bool side_a : {true, false}) {
    const Attrs attrs{{"side", std::string(side_a ? "a" : "b")}, {"other_axis", std::string("last")}};
    const std::vector<float> want = oracle_sparse(csr, other, Axis::last, side_a);
    ASSERT_TRUE(levels_give(want, Op::sparse_matmul, {csr, other}, attrs, {1, 2, 7}));
  }
}

}  // namespace
}  // namespace fp4sim::test
