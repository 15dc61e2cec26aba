// matmul of the scalar backend: every case of numerics.md §7 against tests/packed_operand.h.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "tests/bits.h"
#include "tests/packed_operand.h"
#include "tests/product_oracle.h"
#include "tests/quantize_cases.h"
#include "tests/quantize_nodes.h"

namespace fp4sim::test {
namespace {

const char* text(Axis axis) { return to_string(axis); }

std::vector<float> matmul(const HostValue& a, Axis a_axis, const HostValue& b, Axis b_axis) {
  const auto backend = scalar::make_backend();
  return floats(run_node(*backend, Op::matmul, {a, b}, {{"a_axis", text(a_axis)}, {"b_axis", text(b_axis)}})[0]);
}

std::vector<float> matmul(const PackedOperand& a, const PackedOperand& b) {
  return matmul(packed_value(a), a.axis, packed_value(b), b.axis);
}

struct RuleRow {
  const char *a, *b;
  int64_t k;
  Expect expect;
};

constexpr RuleRow kRules[] = {
    {"mxfp4", "mxfp4", 64, Expect::exact_blocks},
    {"mxfp4", "mxfp4", 70, Expect::exact_blocks},    // short last block
    {"mxfp4", "mxfp4", 7, Expect::exact_blocks},     // only a short block
    {"mxfp4", "mxfp4", 2100, Expect::exact_blocks},  // panels of 1024, the last short
    {"mxfp8e4m3", "mxfp4", 96, Expect::exact_blocks},
    {"mxfp8e4m3", "mxfp8e4m3", 1100, Expect::exact_blocks},  // 18 + 18 + 5 = 41
    {"mxfp8e5m2", "mxfp4", 96, Expect::exact_blocks},        // 32 + 4 + 5 = 41
    {"mxfp6e2m3", "mxfp6e3m2", 50, Expect::exact_blocks},    // codes of 6 bits
    {"mxfp8e5m2", "mxfp8e4m3", 96, Expect::chain_blocks},    // 32 + 18 + 5 = 55
    {"mxfp8e5m2", "mxfp8e4m3", 5, Expect::chain_blocks},     // the nominal block decides, not the short one
    {"mxfp8e5m2", "mxfp8e5m2", 1100, Expect::chain_blocks},
    {"nvfp4", "nvfp4", 80, Expect::exact_blocks},          // fl(fl(y·d_a)·d_b)
    {"nvfp4", "e2m1:b16:e8m0", 80, Expect::exact_blocks},  // one tensor scale
    {"e2m1:b16:e8m0", "nvfp4", 1040, Expect::exact_blocks},
    {"e2m1:b16:e4m3/one", "nvfp4", 33, Expect::exact_blocks},
    {"e2m1:b128:e8m0", "e4m3:b128:fp32", 300, Expect::exact_blocks},
    {"mxfp4", "nvfp4", 64, Expect::decoded},  // 32 and 16: another partition, even for k ≤ 16
    {"mxfp4", "nvfp4", 16, Expect::decoded},
    {"mxfp4", "e2m1:row:fp32", 64, Expect::decoded},
    {"mxfp4", "e2m1:row:fp32", 1200, Expect::decoded},
    {"mxfp4", "bf16", 40, Expect::decoded},
    {"bf16", "fp16", 1030, Expect::decoded},
    {"e5m2:none", "e4m3:none", 40, Expect::decoded},
    {"e2m1:row:fp32", "e2m1:row:fp32", 1500, Expect::exact_vectors},  // exact over all of k: no panels
    {"e2m1:row:fp32", "e2m1:tensor:fp32", 99, Expect::exact_vectors},
    {"e4m3:tensor:fp32", "e4m3:tensor:fp32/pow2", 2050, Expect::exact_vectors},
    {"e2m1:row:e8m0", "e2m1:row:e4m3/te", 64, Expect::exact_vectors},
    {"e5m2:row:fp32", "e4m3:row:fp32", 8, Expect::exact_vectors},  // 32 + 18 + 3 = 53: the last within the budget
    {"e5m2:row:fp32", "e4m3:row:fp32", 9, Expect::chain_vectors},  // 54
    {"e5m2:row:fp32", "e4m3:row:fp32", 1100, Expect::chain_vectors},
};

class MatmulRules : public testing::TestWithParam<RuleRow> {};

TEST_P(MatmulRules, gives_the_oracle_s_bits_along_both_axes) {
  const RuleRow row = GetParam();
  for (const Axis a_axis : {Axis::last, Axis::first})
    for (const Axis b_axis : {Axis::last, Axis::first}) {
      const PackedOperand a = random_operand(row.a, a_axis, 1, 3, row.k, 1),
                          b = random_operand(row.b, b_axis, 1, 5, row.k, 2);
      EXPECT_TRUE(same_bits(matmul(a, b), product_oracle(a, b, row.expect))) << text(a_axis) << ' ' << text(b_axis);
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, MatmulRules, testing::ValuesIn(kRules), [](const auto& row) {
  std::string name = std::string(row.param.a) + "_" + row.param.b + "_k" + std::to_string(row.param.k);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

/// True if some result tells the two rules apart, so that the rows above prove something.
bool rules_differ(const char* a_spec, const char* b_spec, int64_t k, Expect one, Expect other) {
  const PackedOperand a = random_operand(a_spec, Axis::last, 1, 20, k, 1),
                      b = random_operand(b_spec, Axis::last, 1, 20, k, 2);
  return !same_bits(product_oracle(a, b, one), product_oracle(a, b, other));
}

TEST(Matmul, the_rules_differ_in_their_bits) {
  EXPECT_TRUE(rules_differ("mxfp8e5m2", "mxfp8e4m3", 96, Expect::exact_blocks, Expect::chain_blocks));
  EXPECT_TRUE(rules_differ("mxfp8e5m2", "mxfp8e4m3", 5, Expect::exact_blocks, Expect::chain_blocks));
  EXPECT_TRUE(rules_differ("e5m2:row:fp32", "e4m3:row:fp32", 8, Expect::exact_vectors, Expect::chain_vectors));
  EXPECT_TRUE(rules_differ("e5m2:row:fp32", "e4m3:row:fp32", 9, Expect::exact_vectors, Expect::chain_vectors));
  EXPECT_TRUE(rules_differ("e2m1:row:fp32", "e2m1:row:fp32", 99, Expect::exact_vectors, Expect::decoded));
  EXPECT_TRUE(rules_differ("nvfp4", "nvfp4", 80, Expect::exact_blocks, Expect::decoded));
}

TEST(Matmul, batches_multiply_matrix_by_matrix) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32", "e2m1:tensor:fp32"})
    for (const Axis axis : {Axis::last, Axis::first}) {
      const PackedOperand a = random_operand(spec, axis, 3, 4, 50, 3),
                          b = random_operand(spec, Axis::last, 3, 2, 50, 4);
      const Expect expect = a.spec.block_size != 0 ? Expect::exact_blocks : Expect::exact_vectors;
      EXPECT_TRUE(same_bits(matmul(a, b), product_oracle(a, b, expect))) << spec;
    }
}

TEST(Matmul, plain_operands_follow_the_fp32_rule) {
  // bf16 and e8m0 blocks hold the same numbers: an unscaled packed operand serves as the oracle of plain ones.
  const PackedOperand a = random_operand("bf16", Axis::last, 2, 3, 1500, 5),
                      b = random_operand("bf16", Axis::last, 2, 4, 1500, 6);
  std::vector<uint16_t> a_bits(a.codes.begin(), a.codes.end());
  std::vector<float> b_first(b.codes.size());  // (matrices, k, rows)
  for (int64_t v = 0; v < 8; ++v)
    for (int64_t k = 0; k < 1500; ++k)
      b_first[static_cast<size_t>((v / 4 * 1500 + k) * 4 + v % 4)] = static_cast<float>(b.element(v, k));
  const std::vector<float> got =
      matmul(bf16_value({2, 3, 1500}, a_bits), Axis::last, f32_value({2, 1500, 4}, b_first), Axis::first);
  EXPECT_TRUE(same_bits(got, product_oracle(a, b, Expect::decoded)));
}

TEST(Matmul, one_plain_operand_decodes_the_packed_one) {
  const PackedOperand a = random_operand("nvfp4", Axis::last, 1, 3, 40, 7),
                      b = random_operand("bf16", Axis::last, 1, 4, 40, 8);
  std::vector<uint16_t> b_bits(b.codes.begin(), b.codes.end());
  EXPECT_TRUE(same_bits(matmul(packed_value(a), Axis::last, bf16_value({4, 40}, b_bits), Axis::last),
                        product_oracle(a, b, Expect::decoded)));
}

TEST(Matmul, an_empty_contraction_gives_plus_zero) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32", "bf16"}) {
    const PackedOperand a = random_operand(spec, Axis::last, 1, 2, 0, 1),
                        b = random_operand(spec, Axis::last, 1, 3, 0, 2);
    EXPECT_TRUE(same_bits(matmul(a, b), std::vector<float>(6, 0.0f))) << spec;
  }
}

TEST(Matmul, a_nan_scale_reaches_exactly_its_row) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32"}) {
    PackedOperand a = random_operand(spec, Axis::last, 1, 3, 64, 1);
    const PackedOperand b = random_operand(spec, Axis::last, 1, 2, 64, 2);
    const size_t bad = static_cast<size_t>(a.blocks());  // first block of row 1
    a.scales[bad] = a.spec.scale == ScaleFormat::e8m0   ? 0xFF
                    : a.spec.scale == ScaleFormat::e4m3 ? 0x7F
                                                        : kF32CanonicalNaN;
    std::fill_n(a.codes.begin() + 64, a.block(), 0u);  // codes of a nonfinite block are +0
    const std::vector<float> y = matmul(a, b);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(y[i]), i / 2 == 1) << spec;
  }
}

TEST(Matmul, a_nan_code_makes_its_dot_nan_even_against_zero) {
  PackedOperand a = random_operand("e4m3:b32:e8m0/floor:rne+ieee", Axis::last, 1, 2, 64, 1);
  PackedOperand b = random_operand("mxfp4", Axis::last, 1, 2, 64, 2);
  a.codes[5] = 0x7F, b.codes[5] = 0, b.codes[64 + 5] = 0;
  const std::vector<float> y = matmul(a, b);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_TRUE(std::isfinite(y[2]) && std::isfinite(y[3]));
  a = random_operand("e5m2:row:fp32+ieee", Axis::last, 1, 1, 8, 1),
  b = random_operand("e2m1:row:fp32", Axis::last, 1, 1, 8, 2);
  a.codes[3] = 0x7C;  // +Inf: an exact dot does not become Inf
  EXPECT_TRUE(std::isnan(matmul(a, b)[0]));
}

TEST(Matmul, an_infinite_code_beyond_the_budget_follows_ieee) {
  PackedOperand a = random_operand("e5m2:b32:e8m0/floor:rne+ieee", Axis::last, 1, 1, 32, 1);
  PackedOperand b = random_operand("mxfp8e5m2", Axis::last, 1, 1, 32, 2);
  a.codes[3] = 0x7C, b.codes[3] = 0x3C;
  EXPECT_EQ(matmul(a, b)[0], INFINITY);
}

TEST(Matmul, an_exactly_cancelled_dot_is_plus_zero) {
  PackedOperand a = random_operand("mxfp4", Axis::last, 1, 1, 2, 1), b = a;
  a.codes = {0x2, 0xA}, b.codes = {0xA, 0xA};  // 1·(−1) + (−1)·(−1)
  EXPECT_TRUE(same_bits(matmul(a, b), {0.0f}));
  a.codes = {0x0, 0x8}, b.codes = {0xA, 0x2};  // 0·(−1) + (−0)·1: the fp32 rule's zero has no sign here either
  EXPECT_TRUE(same_bits(matmul(a, b), {0.0f}));
}

TEST(Matmul, the_product_of_the_scales_overflows_and_underflows_as_binary32) {
  PackedOperand a = random_operand("mxfp4", Axis::last, 1, 1, 32, 1),
                b = random_operand("mxfp4", Axis::last, 1, 1, 32, 2);
  for (const auto& [sa, sb] : {std::pair{254u, 254u}, {0u, 0u}, {0u, 100u}, {254u, 120u}, {3u, 101u}}) {
    a.scales[0] = sa, b.scales[0] = sb;
    EXPECT_TRUE(same_bits(matmul(a, b), product_oracle(a, b, Expect::exact_blocks))) << sa << ' ' << sb;
  }
}

TEST(Matmul, inner_sizes_must_agree) {
  const PackedOperand a = random_operand("mxfp4", Axis::last, 1, 2, 64, 1),
                      b = random_operand("mxfp4", Axis::last, 1, 2, 48, 2);
  EXPECT_THROW(matmul(a, b), Error);
}

RC_GTEST_PROP(Matmul, equals_the_oracle_for_random_shapes_and_scales, ()) {
  const char* spec =
      *rc::gen::element("mxfp4", "nvfp4", "mxfp8e4m3", "e2m1:b64:e8m0/even", "e3m2:b16:fp32", "e2m1:row:fp32");
  const auto axis = [] { return *rc::gen::element(Axis::last, Axis::first); };
  const int64_t k = *rc::gen::inRange(0, 150), m = *rc::gen::inRange(1, 5), n = *rc::gen::inRange(1, 5);
  const PackedOperand a = random_operand(spec, axis(), 1, m, k, *rc::gen::arbitrary<uint32_t>());
  const PackedOperand b = random_operand(spec, axis(), 1, n, k, *rc::gen::arbitrary<uint32_t>());
  const Expect expect = a.spec.block_size != 0 ? Expect::exact_blocks : Expect::exact_vectors;
  RC_ASSERT(same_bits(matmul(a, b), product_oracle(a, b, expect)));
}

// ---- every format, partition and option, against product_oracle.h ----

/// A value quantized by the backend under test, of shape (matrices, rows, k) or (matrices, k, rows), of random numbers
/// with a few whose codes are drawn at random: every code of int8 and int4 (−128 and −8 too), zeros and specials.
HostValue quantized(const std::string& spec, Axis axis, int64_t matrices, int64_t rows, int64_t k, uint64_t seed) {
  const Shape shape = axis == Axis::last ? Shape{matrices, rows, k} : Shape{matrices, k, rows};
  const auto x = draw_values(kAllValues[seed % 3], matrices * rows * k, seed);
  HostValue v = quantize_node(shape, x, spec, {axis}).packed;
  if (seed % 2 == 0 || v.type.spec.element.bits > 8) return v;
  Draw draw(seed);
  const int bits = v.type.spec.element.bits;
  if (8 % bits == 0)  // whole codes in a byte; no padding, or the low half of a byte
    for (size_t i = 0; i < v.parts[0].size(); i += 7)
      v.parts[0][i] = static_cast<std::byte>(draw.bits() & ((1u << bits) - 1u));
  return v;
}

constexpr const char* kProductSpecs[][2] = {
    {"mxint8", "mxint8"},
    {"int4:b32:e8m0", "mxint8"},
    {"int8:row:fp32", "int8:row:fp32"},
    {"int4:tensor:fp32/pow2", "e2m1:row:fp32"},
    {"e1m2:b16:e4m3/te", "e3m0:b16:e8m0/opt"},
    {"e2m1:2d32:e8m0", "mxfp4"},
    {"e2m1:2d16:e4m3/te", "nvfp4"},
    {"e2m1:2d32:e4m3/exact", "e4m3:2d32:fp32"},
    {"e5m2:2d32:e8m0", "e4m3:b32:e8m0"},  // beyond the budget in tiles
    {"e2m1:2d16:e8m0", "mxfp4"},          // 16 and 32
    {"e2m1:col:fp32", "e2m1:row:fp32"},
    {"e2m1:col:e8m0", "e2m1:col:e4m3/te"},
    {"e2m1:2d32:e8m0", "e2m1:row:fp32"},
    {"e2m1:b16:ue5m3/te", "e2m1:b16:ue3m4/exact"},
    {"e2m1:row:ue4m4/one", "int8:tensor:ue8m0/te"},
    {"e5m2b100f:b32:e8m0", "e2m1b-3f:b32:e8m0"},
    {"e5m0f:row:fp32", "e5m0f:row:fp32"},  // 31 + 31
    {"e5m0f:row:fp32", "e2m3:tensor:fp32"},
    {"e1m6f:b64:e8m0", "e1m1f:b64:fp32"},
    {"e2m1bautof:none", "mxfp4"},
    {"e5m2bautof:none", "e3m0bautof:none"},
    {"e2m1:b16:e4m3/torchao", "e2m1:b16:e4m3/4over6(mse)"},
    {"mxfp4:rne+sr34", "mxfp4:rne+sr34"},
    {"mxfp4:rne+sr34", "mxfp4"},
    {"nvfp4", "nvfp4:rne+sr34"},
    {"e2m1:row:fp32:rne+sr34", "e2m1:row:fp32:rne+sr34"},
    {"e2m1:row:fp32:rne+sr34", "mxfp4:rne+sr34"},  // decoded, factor 16/9
    {"e2m1:col:fp32:rne+sr34", "bf16"},
    {"bf16:none:rne+sr34", "fp16:none"},
};

TEST(Matmul, equals_a_second_implementation_for_every_format_partition_and_option) {
  uint64_t seed = 0;
  for (const auto& [a_spec, b_spec] : kProductSpecs)
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{3, 2, 70}, {18, 33, 64}, {1, 1, 1}, {2, 3, 1100}, {2, 2, 0}})
      for (const Axis a_axis : {Axis::last, Axis::first})
        for (const Axis b_axis : {Axis::last, Axis::first}) {
          const int64_t matrices = seed % 4 == 0 ? 2 : 1;
          const HostValue a = quantized(a_spec, a_axis, matrices, m, k, ++seed);
          const HostValue b = quantized(b_spec, b_axis, matrices, n, k, ++seed);
          ASSERT_TRUE(same_bits(matmul(a, a_axis, b, b_axis),
                                oracle_product(oracle_operand(a, a_axis), oracle_operand(b, b_axis))))
              << a_spec << " " << b_spec << " m " << m << " n " << n << " k " << k << " " << text(a_axis) << " "
              << text(b_axis);
        }
}

TEST(Matmul, multiplies_the_finished_product_by_the_sr34_factor_of_a_plain_partner_too) {
  const HostValue a = quantize_node({1, 2}, {6.0f, 2.0f}, "mxfp4:rne+sr34").packed;  // scale 1: codes of 4.5 and 1.5
  EXPECT_EQ(matmul(a, Axis::last, f32_value({1, 2}, {1.0f, 0.0f}), Axis::last)[0], 4.0f * (4.0f / 3.0f));
  EXPECT_EQ(matmul(a, Axis::last, a, Axis::last)[0], (16.0f + 2.25f) * (16.0f / 9.0f));
}

TEST(Matmul, counts_the_lowest_integer_codes_as_their_values) {
  HostValue a = quantize_node({1, 32}, std::vector<float>(32, 1.0f), "mxint8").packed;
  std::fill(a.parts[0].begin(), a.parts[0].end(), std::byte{0x80});  // −2
  EXPECT_EQ(matmul(a, Axis::last, a, Axis::last)[0], 128.0f);        // 32·4 at scale 1
}

}  // namespace
}  // namespace fp4sim::test
