// quantize and dequantize as nodes: against a second quantizer written from the text, and the corner cases of §4.
#include <bit>
#include <limits>

#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/random_bits.h"
#include "tests/bits.h"
#include "tests/block_oracle.h"
#include "tests/pch.h"
#include "tests/quantize_nodes.h"

namespace fp4sim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
using test::Quantized;

Quantized quantize(const Shape& shape, const std::vector<float>& x, const std::string& spec, Axis axis = Axis::last,
                   int64_t row_offset = 0) {
  return test::quantize_node(shape, x, spec, {axis, row_offset});
}

std::vector<float> transposed(const std::vector<float>& x, int64_t rows, int64_t cols) {
  std::vector<float> t(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) t[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * cols + c)];
  return t;
}

constexpr const char* kSpecs[] = {
    "e2m1:b32:e8m0/floor",
    "e2m1:b16:e8m0/ceil:rna",
    "e2m1:b32:e8m0/even:rnz",
    "e2m1:b64:e8m0/rceil:sr32",
    "e2m1:row:e8m0/rceil:rnu",
    "e2m1:b128:e8m0:rtp",
    "e4m3:b32:e8m0",
    "e5m2:b32:e8m0/rceil:sr32",
    "e2m3:b32:e8m0",
    "e3m2:b16:e8m0/even:rtn",
    "e2m1:b16:e4m3/te",
    "e2m1:b16:e4m3/te:sr32",
    "e4m3:b32:e4m3/te:rna",
    "e2m1:b32:e4m3/one",
    "e2m1:b32:e4m3/one:rtz",
    "e2m1:row:fp32",
    "e2m1:row:fp32/pow2:rnu",
    "e4m3:row:fp32",
    "e5m2:tensor:fp32",
    "e2m1:tensor:fp32/pow2:sr32",
    "e5m2:tensor:fp32+ieee",
    "e4m3:b32:e8m0/ceil+ieee",
    "e2m1:tensor:e4m3/te",
    "bf16",
    "bf16:none:sr32",
    "fp16:none:rtp",
    "fp32",
    "e4m3:none+ieee",
    "e2m1:none:sr32",

};

/// Values of every size, with zeros of both signs; NaN and Inf where `nonfinite`.
std::vector<float> draw(int64_t n, uint32_t seed, bool nonfinite) {
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t r = scalar::random_bits(seed, 1, 0, static_cast<uint64_t>(i));
    const uint32_t kind = r % 64;
    const auto unit = static_cast<float>(static_cast<int32_t>(r)) * 0x1p-31f;
    float v = unit * 8;
    if (kind == 0) v = std::copysign(0.0f, unit);
    if (kind == 1) v = std::bit_cast<float>(scalar::random_bits(seed, 2, 0, static_cast<uint64_t>(i)));
    if (kind == 2) v = std::round(unit * 12) / 4;
    if (kind == 3) v = unit * 1e-41f;
    if (!std::isfinite(v) || (nonfinite && r % 509 == 5)) v = nonfinite ? (r % 2 == 0 ? kNan : -kInf) : 1.0f;
    x.push_back(v);
  }
  return x;
}

void expect_equal_to_oracle(const std::string& text, int64_t rows, int64_t cols, Axis axis,
                            const std::vector<float>& x) {
  const QuantSpec spec = parse_quant_spec(text);
  std::vector<uint32_t> random;
  for (size_t i = 0; i < x.size(); ++i)
    random.push_back(scalar::random_bits(test::kQuantizeStep.seed, test::kQuantizeStream, test::kQuantizeStep.step, i));
  const test::QuantizedOracle expected = test::quantize_oracle(x, rows, cols, spec, axis, random);
  const Quantized actual = quantize({rows, cols}, x, text, axis);
  RC_ASSERT(actual.codes() == expected.codes);
  if (!is_unscaled(spec)) RC_ASSERT(static_cast<bool>(test::same_bits(actual.scales(), expected.scales)));
  if (has_tensor_scale(spec)) RC_ASSERT(test::same_bits(test::floats(actual.packed, 2)[0], expected.d));
  RC_ASSERT(static_cast<bool>(test::same_bits(actual.decoded, expected.decoded)));
}

// The shapes have short last blocks, single rows and columns; fp32 has too many codes for the table.
RC_GTEST_PROP(QuantizeProperty, equals_a_second_quantizer_for_every_spec, (uint32_t seed)) {
  const auto rows = *rc::gen::inRange<int64_t>(1, 40), cols = *rc::gen::inRange<int64_t>(1, 70);
  const Axis axis = *rc::gen::element(Axis::last, Axis::first);
  const auto spec = *rc::gen::elementOf(std::vector<std::string>(std::begin(kSpecs), std::end(kSpecs)));
  if (spec == "fp32") RC_DISCARD("32-bit table");
  expect_equal_to_oracle(spec, rows, cols, axis, draw(rows * cols, seed, *rc::gen::inRange(0, 3) == 0));
}

TEST(Quantize, blocks_along_the_first_axis_equal_the_transposed_tensor_s_blocks) {
  constexpr int64_t kRows = 50, kCols = 21;
  const std::vector<float> x = draw(kRows * kCols, 11, false);
  for (const std::string text : kSpecs) {
    if (is_stochastic(parse_quant_spec(text).rounding)) continue;  // random words follow the element's own index
    const Quantized first = quantize({kRows, kCols}, x, text, Axis::first);
    const Quantized last = quantize({kCols, kRows}, transposed(x, kRows, kCols), text, Axis::last);
    EXPECT_TRUE(test::same_bits(transposed(first.decoded, kRows, kCols), last.decoded)) << text;
  }
}

TEST(Quantize, fp32_leaves_every_bit_but_nan_payloads) {
  const std::vector<float> x = draw(1000, 3, true);
  EXPECT_TRUE(test::same_bits(quantize({1000}, x, "fp32").decoded, x));
}

TEST(Quantize, a_nan_in_any_of_the_32_lanes_marks_its_block_and_no_other) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:b32:e4m3/one", "e4m3:b32:fp32"})
    for (size_t lane = 0; lane < 32; ++lane)
      for (const float bad : {kNan, kInf, -kInf}) {
        std::vector<float> x(96, 1.5f);
        const std::vector<float> clean = quantize({96}, x, spec).decoded;
        x[32 + lane] = bad;
        const Quantized q = quantize({96}, x, spec);
        const auto size = static_cast<size_t>(q.packed.type.spec.block_size);
        const size_t begin = (32 + lane) / size * size;
        for (size_t i = 0; i < 96; ++i) {
          const bool marked = i >= begin && i < begin + size;
          EXPECT_EQ(std::isnan(q.decoded[i]), marked) << spec << " lane " << lane << " element " << i;
          if (marked) {
            EXPECT_EQ(q.codes()[i], 0u);
          }
          if (!marked) {
            EXPECT_EQ(q.decoded[i], clean[i]);
          }
        }
      }
}

TEST(Quantize, marked_blocks_hold_canonical_nan_scales) {
  const std::vector<float> x{kNan, 1, 2, 3};
  EXPECT_EQ(test::elements<uint8_t>(quantize({4}, x, "mxfp4").packed, 1)[0], 0xFF);
  EXPECT_EQ(test::elements<uint8_t>(quantize({4}, x, "nvfp4").packed, 1)[0], 0x7F);
  EXPECT_EQ(test::elements<uint32_t>(quantize({4}, x, "e2m1:row:fp32").packed, 1)[0], kF32CanonicalNaN);
}

TEST(Quantize, zero_blocks_have_the_stated_scales_and_keep_their_signs) {
  const std::vector<float> x{0.0f, -0.0f, 0.0f, -0.0f};
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:b32:e4m3/one", "e2m1:row:fp32", "e2m1:row:fp32/pow2", "bf16"})
    EXPECT_TRUE(test::same_bits(quantize({4}, x, spec).decoded, x)) << spec;
  EXPECT_EQ(test::elements<uint8_t>(quantize({4}, x, "mxfp4").packed, 1)[0], 0);
  EXPECT_EQ(test::elements<uint8_t>(quantize({4}, x, "nvfp4").packed, 1)[0], 0);
  EXPECT_EQ(test::floats(quantize({4}, x, "nvfp4").packed, 2)[0], 1.0f);
  EXPECT_EQ(test::floats(quantize({4}, x, "e2m1:row:fp32").packed, 1)[0], 1.0f);
}

TEST(Quantize, a_zero_block_in_a_nonzero_tensor_has_a_finite_scale) {
  std::vector<float> x(64, 0.0f);
  x[40] = 3;
  const Quantized q = quantize({64}, x, "nvfp4");
  EXPECT_EQ(test::elements<uint8_t>(q.packed, 1)[0], 0);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(q.decoded[i], 0.0f);
}

TEST(Quantize, the_tensor_amax_is_taken_over_finite_blocks_only) {
  std::vector<float> x(32, 1.0f);
  x[3] = kNan;
  x[4] = 1000.0f;  // in the marked block
  const float d = test::floats(quantize({32}, x, "nvfp4").packed, 2)[0];
  EXPECT_EQ(d, 1.0f / 2688.0f);
}

TEST(Quantize, conformance_rows_on_profiles_hold) {
  std::vector<float> x(64, 0.0f);
  x[40] = 3;
  for (const char* rule : {"te", "exact", "torchao", "modelopt", "fouroversix", "one", "4over6(mse)", "4over6(mae)"}) {
    const std::string spec = "e2m1:b16:e4m3/" + std::string(rule);
    // An all-zero block in a nonzero tensor: code 0, zero codes. An all-zero tensor decodes to zeros.
    const Quantized q = quantize({64}, x, spec);
    EXPECT_EQ(test::elements<uint8_t>(q.packed, 1)[0], 0) << spec;
    EXPECT_EQ(q.codes()[0], 0u) << spec;
    const Quantized zeros = quantize({64}, std::vector<float>(64, 0.0f), spec);
    EXPECT_EQ(zeros.decoded, std::vector<float>(64, 0.0f)) << spec;
    EXPECT_EQ(zeros.d(), 1.0f) << spec;
    EXPECT_EQ(quantize({33}, std::vector<float>(33, 1.0f), spec).decoded.size(), 33u);
  }
}

TEST(Quantize, tiles_commute_with_transpose_and_blocks_do_not) {
  const std::vector<float> x = draw(40 * 50, 31, false);
  const auto last = [&](const char* spec) { return quantize({40, 50}, x, spec).decoded; };
  const auto turned = [&](const char* spec) {
    return transposed(quantize({50, 40}, transposed(x, 40, 50), spec).decoded, 50, 40);
  };
  for (const char* spec : {"e2m1:2d16:e8m0", "e2m1:2d32:e4m3/te", "int8:2d32:fp32", "e2m1:tensor:e8m0/ceil"})
    EXPECT_TRUE(test::same_bits(last(spec), turned(spec))) << spec;
  EXPECT_FALSE(test::same_bits(last("mxfp4"), turned("mxfp4")));
}

TEST(Quantize, opt_takes_the_scale_with_the_smaller_error_and_rceil_on_a_tie) {
  const auto byte = [](const std::vector<float>& x, const std::string& spec) {
    return test::elements<uint8_t>(quantize({static_cast<int64_t>(x.size())}, x, spec).packed, 1)[0];
  };
  // 6.5: scale 1 clips it to 6 (error 0.25); scale 2 gives 6 or 8: 3.25 → 3, the same error: rceil.
  EXPECT_EQ(byte({6.5f}, "e2m1:b32:e8m0/opt"), 128);
  // With a 0.5 beside it, which scale 2 rounds to 0 (tie): scale 1 wins.
  EXPECT_EQ(byte({6.5f, 0.5f}, "e2m1:b32:e8m0/opt"), 127);
  EXPECT_EQ(byte({8.0f, 0.5f}, "e2m1:b32:e8m0/opt"), 128);
}

TEST(Quantize, four_over_six_takes_four_where_it_fits_better) {
  // Amax 6 at scale 1: 5 lies midway of 4 and 6. The 4-candidate has scale 1.5: 5/1.5 = 3.33 → 3 → 4.5, 6/1.5 = 4.
  const auto byte = [](const std::vector<float>& x, const char* rule) {
    return test::elements<uint8_t>(quantize({static_cast<int64_t>(x.size())}, x, rule).packed, 1)[0];
  };
  for (const char* spec : {"e2m1:b16:e4m3/4over6(mse)", "e2m1:b16:e4m3/4over6(mae)"}) {
    const uint8_t six = byte({6.0f, 3.0f}, spec), four = byte({6.0f, 5.0f}, spec);
    EXPECT_EQ(six, 0x78) << spec;   // 256: b6 of the block that holds the tensor amax
    EXPECT_EQ(four, 0x7C) << spec;  // 384 = 1.5·256
  }
}

TEST(Quantize, bauto_takes_the_largest_bias_that_holds_amax) {
  const auto bias = [](const std::vector<float>& x, const char* spec) {
    return quantize({static_cast<int64_t>(x.size())}, x, spec).bias();
  };
  EXPECT_EQ(bias({0.0f, -0.0f}, "e2m1bautof:none"), 1);
  EXPECT_EQ(bias({6.0f}, "e2m1bautof:none"), 1);
  EXPECT_EQ(bias({6.0f, 6.1f}, "e2m1bautof:none"), 0);
  EXPECT_EQ(bias({3.0f, kInf, kNan}, "e2m1bautof:none"), 2);
  EXPECT_EQ(bias({0x1p-149f}, "e2m1bautof:none"), 149);                           // smallest positive value 2^-149
  EXPECT_EQ(bias({std::numeric_limits<float>::max()}, "e2m1bautof:none"), -124);  // 1.5·2^127 < amax: the lowest bias
  const std::vector<float> x = draw(300, 17, false);
  EXPECT_TRUE(test::same_bits(quantize({300}, quantize({300}, x, "e5m2bautof:none").decoded, "e5m2bautof:none").decoded,
                              quantize({300}, x, "e5m2bautof:none").decoded));
}

TEST(Quantize, conformance_rows_on_blocks_hold) {
  // A tie on a block with scale byte 126 goes to even: −0.625/0.5 = −1.25 → −1.
  const Quantized tie = quantize({2}, {2.0f, -0.625f}, "mxfp4");
  EXPECT_EQ(test::elements<uint8_t>(tie.packed, 1)[0], 126);
  EXPECT_EQ(tie.codes()[1], 0xAu);
  EXPECT_EQ(quantize({2}, {957.0f, 960.0f}, "mxfp8e4m3").decoded[0], 896.0f);
  EXPECT_EQ(quantize({2}, {957.0f, 960.0f}, "e4m3:b32:e8m0/rceil").decoded[0], 960.0f);
  EXPECT_EQ(quantize({33}, std::vector<float>(33, 1.0f), "mxfp4").decoded, std::vector<float>(33, 1.0f));
}

TEST(Quantize, the_largest_float_decodes_to_infinity_where_the_scale_rounds_up) {
  const std::vector<float> x{std::numeric_limits<float>::max()};
  EXPECT_EQ(quantize({1}, x, "e2m1:b32:e8m0/floor").decoded[0], 0x1.8p127f);
  EXPECT_EQ(quantize({1}, x, "e2m1:b32:e8m0/ceil").decoded[0], kInf);
}

TEST(Quantize, codes_of_each_row_start_on_a_byte_and_padding_bits_are_zero) {
  const std::vector<float> x(3 * 5, -6.0f);
  for (const auto& [spec, last_byte] : {std::pair{"mxfp4", 0x0F}, std::pair{"mxfp6e3m2", 0x3F}}) {
    const Quantized q = quantize({3, 5}, x, spec);
    const int64_t row_bytes = code_row_bytes(q.packed.type);
    ASSERT_EQ(q.packed.parts[0].size(), static_cast<size_t>(3 * row_bytes));
    for (int64_t row = 1; row <= 3; ++row)
      EXPECT_EQ(static_cast<int>(q.packed.parts[0][static_cast<size_t>(row * row_bytes - 1)]) & ~last_byte, 0) << spec;
  }
}

TEST(Quantize, empty_tensors_have_empty_outputs_and_a_tensor_scale_of_one) {
  for (const Shape& shape : {Shape{0}, Shape{0, 32}, Shape{4, 0}})
    for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32", "e5m2:tensor:fp32", "bf16"}) {
      const Quantized q = quantize(shape, {}, spec);
      EXPECT_TRUE(q.decoded.empty());
      if (has_tensor_scale(q.packed.type.spec)) {
        EXPECT_EQ(test::floats(q.packed, 2)[0], 1.0f);
      }
    }
}

TEST(Quantize, three_dimensional_tensors_are_matrices_one_after_the_other) {
  const std::vector<float> x = draw(3 * 20 * 24, 5, false);
  for (const char* spec : {"mxfp4", "e2m1:row:fp32", "e2m1:b16:e4m3/one"})
    for (const Axis axis : {Axis::last, Axis::first}) {
      const std::vector<float> whole = quantize({3, 20, 24}, x, spec, axis).decoded;
      for (int64_t m = 0; m < 3; ++m) {
        const std::vector<float> matrix(x.begin() + m * 480, x.begin() + (m + 1) * 480);
        EXPECT_TRUE(test::same_bits(quantize({20, 24}, matrix, spec, axis).decoded,
                                    {whole.begin() + m * 480, whole.begin() + (m + 1) * 480}));
      }
    }
}

TEST(Quantize, a_quantized_tensor_is_a_fixed_point_of_rules_that_keep_the_scale) {
  const std::vector<float> x = draw(40 * 64, 9, false);
  for (const char* spec : {"e2m1:b32:e8m0/rceil", "e4m3:b32:e8m0/rceil", "e2m1:row:fp32/pow2", "bf16", "fp16"}) {
    const std::vector<float> once = quantize({40, 64}, x, spec).decoded;
    EXPECT_TRUE(test::same_bits(quantize({40, 64}, once, spec).decoded, once)) << spec;
  }
}

TEST(Cast, bf16_rounds_to_nearest_even_with_infinities_and_canonical_nans) {
  const auto backend = scalar::make_backend();
  const std::vector<float> x = {1.0f,  0x1.01p0f, 0x1.03p0f, std::numeric_limits<float>::max(),
                                -kInf, kNan,      -0.0f,     1e-45f};
  const auto bf16 = test::run_node(*backend, Op::cast, {test::f32_value({8}, x)}, {{"to", "bf16"}})[0];
  EXPECT_EQ(test::elements<uint16_t>(bf16),
            (std::vector<uint16_t>{0x3F80, 0x3F80, 0x3F82, 0x7F80, 0xFF80, 0x7FC0, 0x8000, 0x0000}));
  const auto back = test::floats(test::run_node(*backend, Op::cast, {bf16}, {{"to", "f32"}})[0]);
  EXPECT_TRUE(test::same_bits(back, {1.0f, 1.0f, 0x1.04p0f, kInf, -kInf, kNan, -0.0f, 0.0f}));
}

// ---- stochastic rounding ----

TEST(RandomBits, are_random123_s_known_answers) {
  const auto words = [](uint64_t seed, uint64_t counter, uint32_t stream, uint32_t step) {
    return scalar::philox_words(seed, counter, stream, step);
  };
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(words(0, 0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~0ull, ~0ull, ~0u, ~0u), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x13198a2eu, 0x03707344u),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(scalar::random_bits(5, 6, 7, i), words(5, i / 4, 6, 7)[i % 4]);
}

TEST(StochasticRounding, chunks_with_their_row_offset_equal_the_whole) {
  constexpr int64_t kRows = 12, kCols = 37;
  const std::vector<float> x = draw(kRows * kCols, 21, false);
  for (const char* spec : {"mxfp4:sr32", "bf16:none:sr32", "e2m1:row:fp32/pow2:sr32", "e2m1:b16:e4m3/one:sr32",
                           "mxint8:sr8", "e3m0:b16:ue8m0/one:sr8", "e2m1:b32:e8m0/opt:sr32+sr34"}) {
    const std::vector<float> whole = quantize({kRows, kCols}, x, spec).decoded;
    for (const int64_t rows : {1, 3, 4, 6}) {
      std::vector<float> pieces;
      for (int64_t first = 0; first < kRows; first += rows) {
        const std::vector<float> chunk(x.begin() + first * kCols, x.begin() + (first + rows) * kCols);
        const std::vector<float> piece = quantize({rows, kCols}, chunk, spec, Axis::last, first).decoded;
        pieces.insert(pieces.end(), piece.begin(), piece.end());
      }
      EXPECT_TRUE(test::same_bits(pieces, whole)) << spec << " in chunks of " << rows;
    }
  }
}

TEST(StochasticRounding, offsets_past_2_31_elements_use_64_bit_indices) {
  const std::vector<float> x(8, 0.3f);
  constexpr int64_t kOffset = (int64_t{1} << 33) / 8 + 1;
  const Quantized q = quantize({1, 8}, x, "e2m1:none:sr32", Axis::last, kOffset);
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t r = scalar::random_bits(test::kQuantizeStep.seed, test::kQuantizeStream, test::kQuantizeStep.step,
                                           static_cast<uint64_t>(kOffset) * 8 + i);
    EXPECT_EQ(q.codes()[i], scalar::encode_value(x[i], kE2m1, Rounding::sr32, false, r));
  }
}

TEST(StochasticRounding, has_the_value_as_its_mean) {
  constexpr int64_t kCount = 100000;
  for (const float v : {0.1f, 0.3f, 1.25f, -2.75f, 3.9f, 5.0f}) {
    const auto mean_of = [&](const std::string& spec) {
      double sum = 0;
      for (const float q : quantize({kCount}, std::vector<float>(kCount, v), spec).decoded) sum += q;
      return sum / kCount;
    };
    // Six standard deviations of a variable that takes two values at most 2 apart.
    const double six = 6 * 1.0 / std::sqrt(kCount);
    EXPECT_NEAR(mean_of("e2m1:none:sr32"), v, six) << v;
    EXPECT_NEAR(mean_of("e2m1:none:sr32+sr34"), 0.75 * v, six) << v;
    // 8 bits round toward zero by less than one 256th of a step.
    EXPECT_NEAR(mean_of("e2m1:none:sr8"), v, six + 2.0 / 256) << v;
  }
}

}  // namespace
}  // namespace fp4sim
