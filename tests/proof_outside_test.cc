// Values from outside (golden/spec) at the op level, on both backends: ml_dtypes' encodings, microxcaling's
// dequantized tensors, and the rows on tensors of conformance_rows.csv. The rows on single values and the differences
// of policy are in scalar_golden_test.cc.
#include <bit>
#include <cmath>
#include <limits>

#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/bits.h"
#include "tests/golden_text.h"
#include "tests/node_runner.h"
#include "tests/pch.h"
#include "tests/proof_runner.h"

namespace fp4sim {
namespace {

using test::HostValue;

struct BackendRow {
  const char* name;
  std::unique_ptr<Backend> (*make)();
};
const BackendRow kBackends[] = {{"scalar", [] { return scalar::make_backend(); }},
                                {"simd", [] { return simd::make_backend(1); }}};

class Outside : public testing::TestWithParam<BackendRow> {
 protected:
  HostValue quantize(const std::string& spec, Shape shape, const std::vector<float>& x, const char* axis = "last") {
    return test::run_node(*backend, Op::quantize, {test::f32_value(std::move(shape), x)},
                          {{"spec", spec}, {"axis", std::string(axis)}})[0];
  }
  std::vector<float> dequantize(const HostValue& q) {
    return test::floats(test::run_node(*backend, Op::dequantize, {q})[0]);
  }
  static uint32_t code(const HostValue& q, int64_t i) {
    return test::code_at(reinterpret_cast<const uint8_t*>(q.parts[0].data()), i, q.type.spec.element.bits);
  }
  std::unique_ptr<Backend> backend = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Backends, Outside, testing::ValuesIn(kBackends),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(Outside, ml_dtypes_encodes_every_row_alike) {
  const std::pair<const char*, const char*> formats[] = {{"float4_e2m1fn", "e2m1:none"},
                                                         {"float6_e2m3fn", "e2m3:none"},
                                                         {"float6_e3m2fn", "e3m2:none"},
                                                         {"float8_e4m3fn", "e4m3:none:rne+ieee"},
                                                         {"float8_e5m2", "e5m2:none:rne+ieee"}};
  for (const auto& [name, spec] : formats) {
    std::vector<float> x;
    std::vector<uint32_t> want;
    const ElementFormat& f = parse_quant_spec(spec).element;
    const uint32_t canonical_nan = f.specials == Specials::none ? max_normal_code(f) : nan_code(f);
    for (const test::CodeRow& row : test::ml_dtypes_rows("encode", name)) {
      x.push_back(std::bit_cast<float>(row.bits));
      const bool overflow_to_nan = f.specials == Specials::nan_only && (row.code & 0x7Fu) == 0x7Fu;
      want.push_back(std::isnan(x.back()) || overflow_to_nan ? canonical_nan : row.code);
    }
    ASSERT_GT(x.size(), 2000u);
    const HostValue q = quantize(spec, {static_cast<int64_t>(x.size())}, x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(code(q, static_cast<int64_t>(i)), want[i]) << name << " " << test::show_bits(x[i]);
  }
}

TEST_P(Outside, microxcaling_dequantizes_to_the_same_values) {
  const std::vector<float> input = test::golden_floats("spec/microxcaling/input_f32_96x128.bin");
  const std::vector<float> output = test::golden_floats("spec/microxcaling/output_f32.bin");
  size_t table = 0;
  for (const char* spec : {"e2m1:b16:e8m0/floor", "e2m1:b32:e8m0/floor", "e2m3:b16:e8m0/floor", "e2m3:b32:e8m0/floor",
                           "e4m3:b16:e8m0/floor", "e4m3:b32:e8m0/floor"}) {
    const std::vector<float> actual = dequantize(quantize(spec, {96, 128}, input));
    for (size_t i = 0; i < input.size(); ++i) {
      const float want = output[table + i];
      // an input of −0 gives +0 there
      ASSERT_TRUE(test::same_bits(actual[i], want) || (input[i] == 0 && actual[i] == want)) << spec << " " << i;
    }
    table += input.size();
  }
  EXPECT_EQ(table, output.size());
}

// ---- conformance_rows.csv: the rows named `quantize_mx`, `quantize` and `division` ----

TEST_P(Outside, conformance_of_single_blocks) {
  std::vector<float> x(32, 0.0f);
  x[0] = -0.625f, x[1] = 2.0f;
  HostValue q = quantize("e2m1:b32:e8m0/floor", {32}, x);
  EXPECT_EQ(test::elements<uint8_t>(q, 1)[0], 126);
  EXPECT_EQ(code(q, 0), 0xAu) << "a tie rounded away";

  x[0] = 957, x[1] = 960;
  EXPECT_EQ(dequantize(quantize("e4m3:b32:e8m0/floor", {32}, x))[0], 896);
  EXPECT_EQ(dequantize(quantize("e4m3:b32:e8m0/rceil", {32}, x))[0], 960);

  // v/s = 1.74999988 and v·fl(1/s) = 1.75 with the scale byte 07: profile `one` divides.
  std::vector<float> block(16, 0.0f);
  block[0] = 0.02392577938735485f, block[1] = 6 * 0.013671875f;
  q = quantize("e2m1:b16:e4m3/one", {16}, block);
  EXPECT_EQ(test::elements<uint8_t>(q, 1)[0], 0x07);
  EXPECT_EQ(code(q, 0), 3u);
}

TEST_P(Outside, conformance_of_a_nan_in_every_lane) {
  for (const char* spec : {"mxfp4", "e4m3:b32:e8m0/rceil", "e2m1:b32:e4m3/te"})
    for (size_t lane = 0; lane < 32; ++lane) {
      std::vector<float> x(96, 1.0f);
      x[32 + lane] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> y = dequantize(quantize(spec, {96}, x));
      for (size_t i = 0; i < 96; ++i) ASSERT_EQ(std::isnan(y[i]), i / 32 == 1) << spec << " lane " << lane;
      x[32 + lane] = 1.0f;
      const std::vector<float> clean = dequantize(quantize(spec, {96}, x));
      for (const size_t i : {size_t{0}, size_t{31}, size_t{64}, size_t{95}})
        ASSERT_TRUE(test::same_bits(y[i], clean[i])) << "a neighbour of the block changed";
    }
}

TEST_P(Outside, conformance_of_zero_blocks_and_zero_tensors) {
  std::vector<float> x(64, 0.0f);
  const auto zeros_with_finite_scales = [&](const char* spec) {
    const HostValue q = quantize(spec, {64}, x);
    for (int64_t i = 16; i < 64; ++i) ASSERT_EQ(code(q, i), 0u) << spec;
    for (const uint8_t scale : test::elements<uint8_t>(q, 1)) ASSERT_NE(scale & 0x7F, 0x7F) << spec;
    const std::vector<float> y = dequantize(q);
    for (size_t i = 16; i < 64; ++i) ASSERT_TRUE(test::same_bits(y[i], 0.0f)) << spec;
  };
  for (const char* spec : {"nvfp4", "e2m1:b16:e4m3/exact", "e2m1:b16:e4m3/torchao", "e2m1:b16:e4m3/modelopt",
                           "e2m1:b16:e4m3/fouroversix", "e2m1:b16:e4m3/one", "e2m1:b16:e4m3/4over6(mse)"}) {
    x[3] = 0.0f;
    zeros_with_finite_scales(spec);
    x[3] = 5.0f;  // a nonzero tensor with zero blocks
    zeros_with_finite_scales(spec);
  }
}

TEST_P(Outside, conformance_of_lengths_and_transposes) {
  std::vector<float> x;
  for (int i = 0; i < 33; ++i) x.push_back(static_cast<float>(i - 16) / 4);
  EXPECT_EQ(dequantize(quantize("mxfp4", {33}, x)).size(), 33u);

  constexpr int64_t kSide = 64;
  std::vector<float> a(kSide * kSide), t(kSide * kSide);
  for (int64_t row = 0; row < kSide; ++row)
    for (int64_t col = 0; col < kSide; ++col) {
      const auto mixed = static_cast<uint32_t>(row * kSide + col) * 2654435761u;
      a[static_cast<size_t>(row * kSide + col)] =
          std::ldexp(static_cast<float>(static_cast<int32_t>(mixed)), -28 - static_cast<int>(row / 8));
      t[static_cast<size_t>(col * kSide + row)] = a[static_cast<size_t>(row * kSide + col)];
    }
  const auto transposes_alike = [&](const char* spec, const char* axis) {
    const std::vector<float> whole = dequantize(quantize(spec, {kSide, kSide}, a));
    const std::vector<float> turned = dequantize(quantize(spec, {kSide, kSide}, t, axis));
    for (int64_t row = 0; row < kSide; ++row)
      for (int64_t col = 0; col < kSide; ++col)
        if (!test::same_bits(whole[static_cast<size_t>(row * kSide + col)],
                             turned[static_cast<size_t>(col * kSide + row)]))
          return false;
    return true;
  };
  EXPECT_TRUE(transposes_alike("mxfp4", "first")) << "the transposed matrix along its first axis has the same blocks";
  EXPECT_FALSE(transposes_alike("mxfp4", "last")) << "blocks along rows are not those along columns";
  EXPECT_TRUE(transposes_alike("e2m1:2d16:e4m3/te", "last")) << "tiles commute with the transpose";
}

}  // namespace
}  // namespace fp4sim
