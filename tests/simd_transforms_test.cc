// occ_split, add_residual, hadamard and cast of every simd level against scalar, and OCC against sorting.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/quantize_cases.h"
#include "tests/simd_levels.h"

namespace fp4sim {
namespace {

using test::HostValue;
using test::Values;

Attrs split_attrs(const std::string& option, Axis axis) {
  return {{"spec", "mxfp4+occ(" + option + ")"}, {"axis", std::string(to_string(axis))}};
}

/// occ_split, then add_residual of both outputs, on every level.
testing::AssertionResult split_and_join(const HostValue& x, const Attrs& attrs) {
  const testing::AssertionResult split = test::levels_give_scalar_bits(Op::occ_split, {x}, attrs);
  if (!split) return split;
  const std::vector<HostValue> parts = test::run_node(*scalar::make_backend(), Op::occ_split, {x}, attrs);
  return test::levels_give_scalar_bits(Op::add_residual, parts);
}

// Binary fractions: the hostile caller of levels_give_scalar_bits also parses the text.
const std::vector<std::string> kOptions = {"0.984375,fp32",
                                           "0.96875,bf16",
                                           "0.90625,e4m3",
                                           "0.5,fp32",
                                           "1,e4m3",
                                           "0.984375,none",
                                           "0.998046875,e4m3,tensor",
                                           "0.953125,bf16,tensor",
                                           "0.625,fp32,tensor",
                                           "0.9375,none,tensor"};

RC_GTEST_PROP(SimdTransforms, split_and_join_outliers_as_scalar_does, ()) {
  const std::string option = *rc::gen::elementOf(kOptions);
  const int64_t rows = *rc::gen::inRange<int64_t>(1, 40), cols = *rc::gen::inRange<int64_t>(1, 300);
  const bool batched = *rc::gen::arbitrary<bool>();
  const Shape shape = batched ? Shape{2, rows, cols} : Shape{rows, cols};
  const Values kind =
      *rc::gen::elementOf(std::vector<Values>(std::begin(test::kAllValues), std::end(test::kAllValues)));
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const HostValue x = test::f32_value(shape, test::draw_values(kind, element_count(shape), seed));
  for (const Axis axis : {Axis::last, Axis::first}) {
    const testing::AssertionResult same = split_and_join(x, split_attrs(option, axis));
    if (!same) RC_FAIL(option + " " + to_string(axis) + " " + to_string(shape) + ": " + same.message());
  }
}

TEST(SimdTransforms, split_long_vectors_at_the_values_that_sorting_finds) {
  for (const int64_t n : {255, 256, 1000, 4099, 20000})
    for (const double alpha : {0.99, 0.97, 0.75}) {
      const std::vector<float> values = test::draw_values(Values::wide_bell, 3 * n, static_cast<uint64_t>(n));
      for (const simd::Level level : simd::available_levels()) {
        const std::string option = std::to_string(alpha).substr(0, 4) + ",fp32";
        const std::vector<HostValue> out =
            test::run_node(*simd::make_backend(level, 2), Op::occ_split, {test::f32_value({3, n}, values)},
                           split_attrs(option, Axis::last));
        const std::vector<float> yc = test::floats(out[0]);
        for (int64_t row = 0; row < 3; ++row) {
          std::vector<float> sorted(values.begin() + row * n, values.begin() + (row + 1) * n);
          std::sort(sorted.begin(), sorted.end());
          const float lower = sorted[static_cast<size_t>((1 - alpha) * static_cast<double>(n))];
          const float upper = sorted[static_cast<size_t>(
              std::min(std::floor(alpha * static_cast<double>(n)), static_cast<double>(n - 1)))];
          for (int64_t i = row * n; i < (row + 1) * n; ++i) {
            const auto at = static_cast<size_t>(i);
            ASSERT_EQ(yc[at], std::min(std::max(values[at], lower), upper)) << option << " n=" << n << " element " << i;
          }
        }
      }
    }
}

TEST(SimdTransforms, keep_infinite_residuals_and_mark_them_in_e4m3) {
  // FLT_MAX − (−FLT_MAX) overflows: ΔY = +Inf.
  std::vector<float> values(64, -3.0e38f);
  values[10] = 3.3e38f;
  values[40] = -3.3e38f;
  const HostValue x = test::f32_value({1, 64}, values);
  for (const char* option : {"0.97,fp32", "0.97,bf16", "0.97,e4m3"})
    EXPECT_TRUE(split_and_join(x, split_attrs(option, Axis::last))) << option;
}

TEST(SimdTransforms, accept_empty_tensors) {
  for (const Shape& shape : {Shape{0, 16}, Shape{3, 0}, Shape{0}})
    EXPECT_TRUE(split_and_join(test::f32_value(shape, {}), split_attrs("0.99,e4m3", Axis::last))) << to_string(shape);
}

TEST(SimdTransforms, rotate_with_the_bits_of_scalar) {
  StepInfo step;
  step.seed = 0xFEDCBA9876543210u;
  step.step = 3;
  for (const int64_t n : {16, 32, 64, 128})
    for (const char* signs : {"none", "fixed16", "philox"})
      for (const int64_t inverse : {0, 1})
        for (const Axis axis : {Axis::last, Axis::first})
          for (const int64_t other : {5, 85}) {
            const Values kind = other == 5 ? Values::any_bits : Values::zeros;
            const Shape shape = axis == Axis::last ? Shape{2, other, 2 * n} : Shape{2, 2 * n, other};
            std::vector<HostValue> inputs{test::f32_value(shape, test::draw_values(kind, element_count(shape), 11))};
            if (std::string(signs) == "philox") inputs.push_back(test::step_value(step));
            const Attrs attrs{{"n", n},
                              {"signs", std::string(signs)},
                              {"axis", std::string(to_string(axis))},
                              {"stream", int64_t{1234567}},
                              {"inverse", inverse}};
            ASSERT_TRUE(test::levels_give_scalar_bits(Op::hadamard, inputs, attrs))
                << n << " " << signs << " inverse=" << inverse << " " << to_string(shape);
          }
}

TEST(SimdTransforms, cast_to_bf16_and_back_with_the_bits_of_scalar) {
  for (const Values kind : test::kAllValues)
    for (const int64_t n : {0, 1, 15, 64, 1025, 40000}) {
      const HostValue x = test::f32_value({n}, test::draw_values(kind, n, 21));
      EXPECT_TRUE(test::levels_give_scalar_bits(Op::cast, {x}, {{"to", std::string("bf16")}})) << n;
    }
  std::vector<uint16_t> all;
  for (uint32_t code = 0; code < 65536; ++code) all.push_back(static_cast<uint16_t>(code));
  EXPECT_TRUE(test::levels_give_scalar_bits(Op::cast, {test::bf16_value({65536}, all)}, {{"to", std::string("f32")}}));
}

}  // namespace
}  // namespace fp4sim
