// norm, clip and adamw of the scalar backend.
#include <gtest/gtest.h>

#include <limits>

#include "reference/scalar/backend.h"
#include "reference/scalar/reduction.h"
#include "tests/bits.h"
#include "tests/finite_difference.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<HostValue> run(Op op, const std::vector<HostValue>& inputs, Attrs attrs = {}) {
  const auto backend = scalar::make_backend();
  return run_node(*backend, op, inputs, std::move(attrs));
}
HostValue row(const std::vector<float>& x) { return f32_value({static_cast<int64_t>(x.size())}, x); }

TEST(Norm, adds_the_row_sums_of_squares_in_input_order) {
  const std::vector<float> a = uniform_floats(5000, 3, 1), b = uniform_floats(70, 5, 2), c = uniform_floats(6, 900, 3);
  const auto squares = [](const std::vector<float>& x) {
    return scalar::rowsum_products(x.data(), x.data(), static_cast<int64_t>(x.size()));
  };
  const auto y = floats(run(Op::norm, {f32_value({50, 100}, a), row(b), row(c)})[0]);
  EXPECT_TRUE(same_bits(y, {std::sqrt((squares(a) + squares(b)) + squares(c))}));
}

std::vector<float> clip(const std::vector<float>& g, float norm, float clip_norm, float loss_scale) {
  StepInfo step;
  step.clip_norm = clip_norm, step.loss_scale = loss_scale;
  return floats(run(Op::clip, {row(g), f32_value({}, {norm}), step_value(step)})[0]);
}

TEST(Clip, shrinks_only_above_the_limit) {
  const std::vector<float> g{1.0f, -3.0f, 0.1f};
  EXPECT_TRUE(same_bits(clip(g, 1.0f, 1.0f, 1.0f), g));
  EXPECT_TRUE(same_bits(clip(g, 0.5f, 1.0f, 1.0f), g));
  EXPECT_TRUE(same_bits(clip(g, 100.0f, kInf, 1.0f), g));
  const float f = 1.0f / 3.0f;
  EXPECT_TRUE(same_bits(clip(g, 3.0f, 1.0f, 1.0f), {f, -3.0f * f, 0.1f * f}));
}

TEST(Clip, divides_by_the_loss_scale_first) {
  const float f = 2.0f / 3.0f;
  EXPECT_TRUE(same_bits(clip({5.0f, 0x1p-148f}, 3.0f, 2.0f, 8.0f), {5.0f / 8.0f * f, 0.0f}));
}

TEST(Clip, nonfinite_norms) {
  EXPECT_TRUE(same_bits(clip({1.0f, kNan}, kNan, 1.0f, 1.0f), {1.0f, kNan}));  // NaN > c is false: f = 1
  EXPECT_TRUE(same_bits(clip({1.0f, kInf}, kInf, 1.0f, 1.0f), {0.0f, kNan}));  // f = c/Inf = 0
}

// ---- adamw ----

const Attrs kAttrs{{"weight_decay", 0.1}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}};

StepInfo step_number(int t) {
  StepInfo step;
  step.lr = 3e-3 / t;
  step.beta1_power = std::pow(0.9, t), step.beta2_power = std::pow(0.95, t);
  return step;
}

TEST(Adamw, follows_the_formula_in_binary64_over_many_steps) {
  constexpr size_t kCount = 100;
  std::vector<float> p = uniform_floats(kCount, 1, 1);
  Vector p64 = doubles(p), m64(kCount, 0.0), v64(kCount, 0.0);
  HostValue hp = row(p), hm = row(std::vector<float>(kCount, 0.0f)), hv = hm;
  for (int t = 1; t <= 30; ++t) {
    const std::vector<float> g = uniform_floats(kCount, 0.1f, static_cast<uint32_t>(100 + t));
    const StepInfo step = step_number(t);
    const auto updated = run(Op::adamw, {hp, hm, hv, row(g), step_value(step)}, kAttrs);
    hp = updated[0], hm = updated[1], hv = updated[2];
    for (size_t i = 0; i < kCount; ++i) {
      const double gi = g[i];
      p64[i] *= 1 - step.lr * 0.1;
      m64[i] = 0.9 * m64[i] + 0.1 * gi, v64[i] = 0.95 * v64[i] + 0.05 * gi * gi;
      p64[i] -= step.lr * (m64[i] / (1 - step.beta1_power)) / (std::sqrt(v64[i] / (1 - step.beta2_power)) + 1e-8);
    }
  }
  EXPECT_TRUE(is_near(floats(hp), p64, 3e-6));
  EXPECT_TRUE(is_near(floats(hm), m64, 1e-6));
  EXPECT_TRUE(is_near(floats(hv), v64, 1e-6));
}

TEST(Adamw, rounds_once_an_operation_in_the_stated_order) {
  const std::vector<float> p = uniform_floats(64, 1, 1), m = uniform_floats(64, 0.1f, 2), g = uniform_floats(64, 1, 4);
  std::vector<float> v = uniform_floats(64, 0.1f, 3);
  for (float& x : v) x = std::fabs(x);
  StepInfo step = step_number(3);
  step.lr = 1e-3;
  // 1 − β is taken in binary64: fl(1 − 0.9) differs from 1 − fl(0.9).
  const float b1 = 0.9f, c1 = static_cast<float>(1.0 - 0.9), b2 = 0.95f, c2 = static_cast<float>(1.0 - 0.95);
  ASSERT_NE(c1, 1.0f - b1);
  const float keep = 1.0f - 1e-3f * 0.1f;
  const float a = static_cast<float>(1e-3 / (1.0 - step.beta1_power)),
              r = static_cast<float>(std::sqrt(1.0 - step.beta2_power));
  std::vector<float> wp, wm, wv;
  for (size_t i = 0; i < 64; ++i) {
    wm.push_back(b1 * m[i] + c1 * g[i]);
    wv.push_back(b2 * v[i] + c2 * (g[i] * g[i]));
    wp.push_back(p[i] * keep - a * (wm[i] / (std::sqrt(wv[i]) / r + 1e-8f)));
  }
  const auto got = run(Op::adamw, {row(p), row(m), row(v), row(g), step_value(step)}, kAttrs);
  EXPECT_TRUE(same_bits(floats(got[0]), wp));
  EXPECT_TRUE(same_bits(floats(got[1]), wm));
  EXPECT_TRUE(same_bits(floats(got[2]), wv));
}

TEST(Adamw, skip_leaves_everything_as_it_is) {
  const std::vector<float> p{1.0f, -0.0f, kNan}, m{2.0f, 0x1p-149f, 3.0f}, v{4.0f, 5.0f, kInf}, g{kNan, 1.0f, kInf};
  StepInfo step = step_number(1);
  step.skip = 1;
  const auto got = run(Op::adamw, {row(p), row(m), row(v), row(g), step_value(step)}, kAttrs);
  EXPECT_TRUE(same_bits(floats(got[0]), p));
  EXPECT_TRUE(same_bits(floats(got[1]), m));
  EXPECT_TRUE(same_bits(floats(got[2]), v));
}

}  // namespace
}  // namespace fp4sim::test
