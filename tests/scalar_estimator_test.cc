// Gradient multipliers (numerics.md §5): the paper's check points, the soft estimator's integral, masks and marked
// blocks.
#include "reference/scalar/estimator.h"

#include <bit>
#include <functional>
#include <limits>

#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/elementary.h"
#include "tests/bits.h"
#include "tests/block_oracle.h"
#include "tests/node_runner.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

float m(double y, const std::string& estimator, const ElementFormat& format = kE2m1) {
  return scalar::estimator_multiplier(y, parse_estimator(estimator), format);
}

/// m(y) of one estimator on the e2m1 grid, parsed once.
std::function<double(double)> multiplier(const std::string& text) {
  return [estimator = parse_estimator(text)](double y) { return scalar::estimator_multiplier(y, estimator, kE2m1); };
}

double integral(const std::function<double(double)>& f, double from, double to, int steps) {
  double sum = 0;
  for (int i = 0; i < steps; ++i) sum += f(from + (to - from) * (i + 0.5) / steps);
  return sum * (to - from) / steps;
}

float to_bf16(float x) { return scalar::decode_code(scalar::encode_value(x, kBf16, Rounding::rne, true), kBf16); }

TEST(Dge, is_one_over_k_at_every_grid_point) {
  for (const double y : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5, -3.0, -6.0})
    for (const double k : {3.0, 5.0, 10.0})
      EXPECT_EQ(m(y, "dge(" + std::to_string(k) + ",3)"), static_cast<float>(1.0 / k)) << y;
}

TEST(Dge, equals_the_released_code_s_test_vector_in_bf16) {
  const float expected[] = {0.2002f, 0.4375f, 0.6055f, 0.2168f, 1.8359f, 0.2695f, 0.3027f, 0.2695f, 0.2402f, 0.5781f,
                            0.5781f, 0.2402f, 0.2695f, 0.3027f, 0.2695f, 1.8359f, 0.2168f, 0.6055f, 0.4375f, 0.2002f};
  for (int i = 0; i < 20; ++i) {
    const float y = to_bf16(static_cast<float>(-6.0 + 12.0 * i / 19.0));
    EXPECT_NEAR(to_bf16(m(y, "dge(5,3)")), expected[i], 5.1e-5) << "element " << i;  // four printed decimals
  }
}

TEST(Dge, has_the_stated_mean_over_an_interval) {
  for (const auto& [lo, hi] : {std::pair{0.0, 0.5}, std::pair{2.0, 3.0}, std::pair{-6.0, -4.0}})
    for (const auto& [text, mean] :
         {std::pair{"dge(5,3)", 0.593494}, std::pair{"dge(3,3)", 0.777778}, std::pair{"dge(10,3)", 0.383238}})
      EXPECT_NEAR(integral(multiplier(text), lo, hi, 100000) / (hi - lo), mean, 2e-6);
}

TEST(Dge, clips_below_the_stated_distance_from_a_midpoint) {
  const auto at = [](double u) { return m(2.5 + u / 2, "dge(5,3)"); };  // interval [2, 3): u = |2(y − 2) − 1|
  EXPECT_EQ(at(0), 3.0f);
  EXPECT_EQ(at(0.033875), 3.0f);
  EXPECT_LT(at(0.033877), 3.0f);
  EXPECT_EQ(m(2.5, "dge(5,7)"), 7.0f);
}

TEST(Dge, is_zero_outside_max_normal_and_closed_at_the_ends) {
  const double beyond = std::nextafter(6.0, 7.0);
  for (const double y : {beyond, -beyond, 1e30, -1e30, static_cast<double>(kInf), static_cast<double>(kNan)})
    EXPECT_EQ(m(y, "dge(5,3)"), 0.0f) << y;
  EXPECT_EQ(m(6.0, "dge(5,3)"), 0.2f);
  EXPECT_EQ(m(-6.0, "dge(5,3)"), 0.2f);
}

TEST(Dge, has_the_last_interval_s_value_at_max_normal_of_every_format) {
  // The last interval is closed: u = 1 at its upper end, for M = 0 (8 to 16 in e3m0) as for the others.
  for (const ElementFormat& format : {kE1m2, kE3m0, kE2m3, kE3m2, kE4m3, kE5m2, kInt8, kInt4})
    for (const double sign : {1.0, -1.0}) {
      EXPECT_EQ(m(sign * max_normal_value(format), "dge(5,3)", format), 0.2f) << format_name(format);
      EXPECT_EQ(m(sign * max_normal_value(format) * 1.0001, "dge(5,3)", format), 0.0f) << format_name(format);
    }
  EXPECT_EQ(m(12.0, "dge(5,3)", kE3m0), 3.0f);
}

TEST(Dge, eps_smooths_the_peak_to_the_value_of_the_paper) {
  // f'(midpoint) = (1/k)·ε^(1/k − 1): the clip of 3 corresponds to ε = 0.033876 for k = 5.
  EXPECT_NEAR(m(2.5, "dge(5,100,0.033876)"), 3.0, 1e-4);
  EXPECT_LT(m(2.5, "dge(5,100,0.1)"), m(2.5, "dge(5,100,0.05)"));
}

TEST(Dge, is_symmetric_and_uses_each_format_s_own_intervals) {
  for (const ElementFormat& format : {kE2m1, kE1m2, kE3m0, kE2m3, kE3m2, kE4m3, kE5m2, kInt8, kInt4, kFp16}) {
    const test::GridTable table = test::grid_table(format);
    for (size_t i = 0; i + 1 < table.values.size(); i += 1 + table.values.size() / 100) {
      const double lo = table.values[i], hi = table.values[i + 1];
      for (const double t : {0.125, 0.3, 0.875}) {
        const double y = lo + (hi - lo) * t, u = std::fabs(2 * t - 1);
        const double expected = std::min(3.0, std::pow(u, 1 / 5.0 - 1) / 5);
        EXPECT_NEAR(m(y, "dge(5,3)", format), expected, expected * 1e-6) << format_name(format) << " " << y;
        EXPECT_EQ(m(y, "dge(5,3)", format), m(-y, "dge(5,3)", format)) << format_name(format) << " " << y;
      }
    }
  }
}

TEST(Soft, integrates_to_the_height_of_the_staircase) {
  for (const double beta : {5.0, 20.0, 100.0}) {
    const std::string text = "soft(" + std::to_string(beta) + ")";
    EXPECT_NEAR(integral(multiplier(text), -20, 20, 40000), 12.0, 1e-5) << beta;
  }
}

TEST(Soft, converges_to_the_hard_quantizer_as_beta_grows) {
  // The integral of m from 0 is the forward formula; with step heights it becomes Q(y).
  for (const double y : {0.1, 0.4, 0.9, 1.4, 2.2, 2.8, 3.3, 4.2, 5.4, 7.0}) {
    const auto forward = [&](const std::string& text) { return integral(multiplier(text), 0, y, 20000); };
    const double hard = scalar::decode_code(scalar::encode_value(y, kE2m1, Rounding::rne, false), kE2m1);
    const double coarse = std::fabs(forward("soft(20)") - hard), fine = std::fabs(forward("soft(400)") - hard);
    EXPECT_LE(fine, coarse + 1e-6) << y;
    EXPECT_NEAR(fine, 0, 1e-4) << y;
  }
}

TEST(SoftForward, is_the_integral_of_its_multiplier) {
  // f(0) = 0 and f' = m, the midpoints below zero included.
  for (const ElementFormat& format : {kE2m1, kE1m2, kE3m0, kInt4}) {
    const Estimator estimator = parse_estimator("soft(6)");
    for (const double y : {0.1, 0.7, 1.4, 2.6, 5.5, 9.0}) {
      const auto multiplier = [&](double t) { return scalar::estimator_multiplier(t, estimator, format); };
      EXPECT_NEAR(scalar::soft_value(y, 6, format), integral(multiplier, 0, y, 20000), 2e-5) << format_name(format);
      EXPECT_EQ(scalar::soft_value(-y, 6, format), -scalar::soft_value(y, 6, format));
    }
  }
}

TEST(SoftForward, converges_to_the_hard_quantizer_as_beta_grows) {
  // The sum weighted with step heights, §5; weighted with the grid values v_i it would not.
  for (const ElementFormat& format : {kE2m1, kE1m2, kE3m0, kE2m3, kE4m3, kInt8}) {
    for (const double part : {0.03, 0.11, 0.34, 0.47, 0.62, 0.98, 1.4}) {
      const double y = part * max_normal_value(format);
      const auto hard =
          static_cast<double>(scalar::decode_code(scalar::encode_value(y, format, Rounding::rne, false), format));
      EXPECT_NEAR(scalar::soft_value(y, 1e5, format), hard, 1e-9 * hard) << format_name(format) << " " << y;
    }
  }
  EXPECT_TRUE(std::signbit(scalar::soft_value(-0.0, 20, kE2m1)));
  EXPECT_EQ(scalar::soft_value(0.0, 20, kE2m1), 0.0);
  EXPECT_EQ(scalar::soft_value(static_cast<double>(kInf), 20, kE2m1), 6.0);
}

TEST(Soft, is_the_sum_of_logistic_derivatives) {
  const double midpoints[] = {-5, -3.5, -2.5, -1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  const double heights[] = {2, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 2};
  for (double y = -8; y < 8; y += 0.0371) {
    double sum = 0;
    for (size_t i = 0; i < 14; ++i) {
      const double s = 1 / (1 + std::exp(-20 * (y - midpoints[i])));
      sum += heights[i] * 20 * s * (1 - s);
    }
    EXPECT_NEAR(m(y, "soft(20)"), sum, 1e-5 + 1e-6 * sum) << y;
  }
  EXPECT_EQ(m(1e6, "soft(20)"), 0.0f);
  EXPECT_EQ(m(kNan, "soft(20)"), 0.0f);
}

TEST(Masks, differ_only_at_max_normal) {
  const double beyond = std::nextafter(6.0, 7.0);
  const struct {
    double y;
    float ste, clip, quest;
  } rows[] = {{0, 1, 1, 1},      {5.9, 1, 1, 1}, {6, 1, 1, 0},    {-6, 1, 1, 0},
              {beyond, 1, 0, 0}, {-9, 1, 0, 0},  {kInf, 1, 0, 0}, {kNan, 1, 0, 0}};
  for (const auto& row : rows) {
    EXPECT_EQ(m(row.y, "ste"), row.ste) << row.y;
    EXPECT_EQ(m(row.y, "ste_clip"), row.clip) << row.y;
    EXPECT_EQ(m(row.y, "quest"), row.quest) << row.y;
  }
}

TEST(Dsq, follows_the_formula_on_every_interval) {
  for (const ElementFormat& format : {kE2m1, kE1m2, kE3m0, kE2m3, kE4m3, kE5m2, kInt8, kInt4}) {
    const test::GridTable table = test::grid_table(format);
    for (const double alpha : {0.05, 0.2, 0.45}) {
      const std::string text = "dsq(" + std::to_string(alpha) + ")";
      for (size_t i = 0; i + 1 < table.values.size(); i += 1 + table.values.size() / 20) {
        const double lo = table.values[i], hi = table.values[i + 1], width = hi - lo;
        const double k = std::log(2 / alpha - 1) / width, s = 1 / (1 - alpha);
        for (const double at : {0.0, 0.1, 0.5, 0.77, 0.999}) {
          const double y = lo + width * at, t = std::tanh(k * (y - (lo + hi) / 2));
          const double expected = width / 2 * s * k * (1 - t * t);
          EXPECT_NEAR(m(y, text, format), expected, 2e-7 * expected) << format_name(format) << " " << y;
          if (at > 0) {
            EXPECT_NEAR(m(-y, text, format), expected, 2e-7 * expected) << format_name(format) << " " << -y;
          }
        }
      }
      EXPECT_EQ(m(table.values.back() * 1.001, text, format), 0.0f);
      EXPECT_GT(m(table.values.back(), text, format), 0.0f);
    }
  }
}

TEST(Dsq, integrates_to_one_over_an_interval) {
  // s·tanh(½·log(2/α − 1)) = 1, so the curve climbs by its whole step: the mean of m is 1 for every α.
  for (const char* text : {"dsq(0.05)", "dsq(0.2)", "dsq(0.45)"})
    for (const auto& [lo, hi] : {std::pair{0.0, 0.5}, std::pair{2.0, 3.0}, std::pair{-6.0, -4.0}})
      EXPECT_NEAR(integral(multiplier(text), lo, hi, 20000) / (hi - lo), 1.0, 1e-6) << text;
}

TEST(Ewgs, follows_the_formula) {
  // y − code = 0.125: dx = dx̂·(1 ± δ·0.125).
  EXPECT_EQ(scalar::ewgs_gradient(2.0f, 1.125, 1.0f, 0.5), 2.0f * (1 + 0.5f * 0.125f));
  EXPECT_EQ(scalar::ewgs_gradient(-2.0f, 1.125, 1.0f, 0.5), -2.0f * (1 - 0.5f * 0.125f));
  EXPECT_TRUE(test::same_bits(scalar::ewgs_gradient(-0.0f, 1.125, 1.0f, 0.5), -0.0f));
  // δ is binary32: fl(1 + fl(fl(0.1)·0.75)).
  EXPECT_EQ(scalar::ewgs_gradient(1.0f, 0.75, 0.0f, 0.1), 1.0f + 0.1f * 0.75f);
  EXPECT_EQ(scalar::ewgs_gradient(3.0f, 9.0, 6.0f, 0.0), 3.0f);
}

TEST(Ewgs, rounds_the_difference_once) {
  // 1 − 2^-24 lies between binary32 numbers 1 − 2^-24 (exact) and 1; 1 + 2^-24 is a tie that 2^-80 decides.
  EXPECT_EQ(scalar::difference_f32(1.0, 0x1p-24), 1.0f - 0x1p-24f);
  EXPECT_EQ(scalar::difference_f32(1.0 + 0x1p-24, 0.0), 1.0f);
  EXPECT_EQ(scalar::difference_f32(1.0 + 0x1p-24, -0x1p-80), 1.0f + 0x1p-23f);
  EXPECT_EQ(scalar::difference_f32(1.0 + 0x1p-24, 0x1p-80), 1.0f);
  EXPECT_EQ(scalar::difference_f32(-1.0 - 0x1p-24, 0x1p-80), -1.0f - 0x1p-23f);
  EXPECT_EQ(scalar::difference_f32(1.0 + 0x3p-24, 0x1p-80), 1.0f + 0x1p-23f);
  EXPECT_EQ(scalar::difference_f32(3.5, 3.5), 0.0f);
}

// ---- the node ----

std::vector<float> gradient(const Shape& shape, const std::vector<float>& dy, const std::vector<float>& x,
                            const std::string& spec, const std::string& estimator, Axis axis = Axis::last) {
  const auto backend = scalar::make_backend();
  const auto q = test::run_node(*backend, Op::quantize, {test::f32_value(shape, x)},
                                {{"spec", spec}, {"axis", to_string(axis)}})[0];
  return test::floats(test::run_node(*backend, Op::estimator_grad,
                                     {test::f32_value(shape, dy), test::f32_value(shape, x), q},
                                     {{"estimator", estimator}})[0]);
}

TEST(EstimatorGrad, uses_the_very_number_given_to_encode) {
  constexpr int64_t kRows = 24, kCols = 40;
  std::vector<float> x, dy;
  for (int i = 0; i < kRows * kCols; ++i) {
    x.push_back(static_cast<float>((i * 7919) % 2003 - 1001) * 0.0137f);
    dy.push_back(static_cast<float>((i * 31) % 17 - 8) * 0.25f);
  }
  x[5] = kNan;
  const std::vector<uint32_t> no_random(x.size());
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:b32:e4m3/one", "e2m1:row:fp32", "e4m3:row:fp32",
                           "e2m1:tensor:fp32/pow2", "e5m2:b16:e8m0/rceil"})
    for (const char* estimator : {"ste", "ste_clip", "dge(5,3)", "soft(7)", "quest"})
      for (const Axis axis : {Axis::last, Axis::first}) {
        const QuantSpec parsed = parse_quant_spec(spec);
        const auto oracle = test::quantize_oracle(x, kRows, kCols, parsed, axis, no_random);
        std::vector<float> expected;
        for (size_t i = 0; i < x.size(); ++i) {
          const bool marked = std::isnan(oracle.decoded[i]);
          expected.push_back(dy[i] * (marked ? 0.0f : m(oracle.y[i], estimator, parsed.element)));
        }
        EXPECT_TRUE(test::same_bits(gradient({kRows, kCols}, dy, x, spec, estimator, axis), expected))
            << spec << " " << estimator << " " << to_string(axis);
      }
}

TEST(EstimatorGrad, is_zero_in_a_marked_block_under_every_estimator) {
  for (const char* estimator : {"ste", "ste_clip", "dge(5,3)", "soft(20)", "dsq(0.2)", "ewgs(0.1)", "quest"})
    EXPECT_TRUE(test::same_bits(gradient({4}, {1, -2, 3, kInf}, {1, kNan, 2, 3}, "mxfp4", estimator),
                                {0.0f, -0.0f, 0.0f, kNan}))
        << estimator;
}

TEST(EstimatorGrad, clips_a_block_maximum_that_the_scale_lets_exceed_max_normal) {
  // mxfp4/floor: amax 7.5 keeps scale 1, so y = 7.5.
  EXPECT_EQ(gradient({2}, {1, 1}, {7.5f, 1.0f}, "mxfp4", "ste_clip"), (std::vector<float>{0, 1}));
  EXPECT_EQ(gradient({2}, {1, 1}, {7.5f, 1.0f}, "mxfp4", "ste"), (std::vector<float>{1, 1}));
  EXPECT_EQ(gradient({2}, {1, 1}, {7.5f, 1.0f}, "e2m1:b32:e8m0/rceil", "ste_clip"), (std::vector<float>{1, 1}));
}

TEST(EstimatorGrad, sees_three_quarters_of_y_under_sr34) {
  // y = 0.75·8 = 6 lies on max_normal.
  EXPECT_EQ(gradient({2}, {1, 1}, {8.0f, 1.0f}, "e2m1:none:rne+sr34", "ste_clip"), (std::vector<float>{1, 1}));
  EXPECT_EQ(gradient({2}, {1, 1}, {8.0f, 1.0f}, "e2m1:none", "ste_clip"), (std::vector<float>{0, 1}));
  EXPECT_EQ(gradient({1}, {1}, {8.0f}, "e2m1:none:rne+sr34", "quest"), (std::vector<float>{0}));
}

}  // namespace
}  // namespace fp4sim
