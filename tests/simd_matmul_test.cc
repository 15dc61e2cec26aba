// matmul on every level against the oracle of product_oracle.h and against scalar.
#include "tests/simd_operands.h"

namespace fp4sim::test {
namespace {

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

}  // namespace
}  // namespace fp4sim::test
