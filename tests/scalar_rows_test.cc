// rmsnorm, layernorm, causal_softmax, cross_entropy: bits of a hand-ordered row, gradients by finite differences of
// binary64 formulas (tolerance 2e-6: the rounding of binary32), and corner rows.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/elementary.h"
#include "reference/scalar/reduction.h"
#include "tests/bits.h"
#include "tests/finite_difference.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = 2e-6;

std::vector<HostValue> run(Op op, const std::vector<HostValue>& inputs, Attrs attrs) {
  const auto backend = scalar::make_backend();
  return run_node(*backend, op, inputs, std::move(attrs));
}

// ---- norms ----

constexpr size_t kRows = 5, kWidth = 70;
constexpr double kEps = 1e-5;

/// Rows of x normalized in binary64: `centered` as layernorm, times g, plus b (empty: none).
Vector normalized(const Vector& x, const Vector& g, const Vector& b, bool centered) {
  Vector y;
  const size_t n = g.size();
  for (size_t t = 0; t < x.size() / n; ++t) {
    const double* row = x.data() + t * n;
    const double mean = centered ? std::accumulate(row, row + n, 0.0) / static_cast<double>(n) : 0.0;
    double square = 0;
    for (size_t i = 0; i < n; ++i) square += (row[i] - mean) * (row[i] - mean);
    const double r = 1 / std::sqrt(square / static_cast<double>(n) + kEps);
    for (size_t i = 0; i < n; ++i) y.push_back((row[i] - mean) * r * g[i] + (b.empty() ? 0.0 : b[i]));
  }
  return y;
}

struct NormCase {
  std::vector<float> x = uniform_floats(kRows * kWidth, 3, 1), g = uniform_floats(kWidth, 2, 2),
                     b = uniform_floats(kWidth, 1, 3), dy = uniform_floats(kRows * kWidth, 1, 4);
  HostValue hx = f32_value({kRows, kWidth}, x), hg = f32_value({kWidth}, g), hb = f32_value({kWidth}, b),
            hdy = f32_value({kRows, kWidth}, dy);
};

TEST(Rmsnorm, values_and_gradients_agree_with_binary64) {
  const NormCase c;
  const Vector x = doubles(c.x), g = doubles(c.g);
  EXPECT_TRUE(
      is_near(floats(run(Op::rmsnorm, {c.hx, c.hg}, {{"eps", kEps}})[0]), normalized(x, g, {}, false), kTolerance));
  const auto grads = run(Op::rmsnorm_grad, {c.hdy, c.hx, c.hg}, {{"eps", kEps}});
  EXPECT_TRUE(
      is_near(floats(grads[0]),
              numeric_gradient([&](const Vector& v) { return weighted_sum(c.dy, normalized(v, g, {}, false)); }, x),
              kTolerance));
  EXPECT_TRUE(
      is_near(floats(grads[1]),
              numeric_gradient([&](const Vector& v) { return weighted_sum(c.dy, normalized(x, v, {}, false)); }, g),
              kTolerance));
}

TEST(Layernorm, values_and_gradients_agree_with_binary64) {
  const NormCase c;
  const Vector x = doubles(c.x), g = doubles(c.g), b = doubles(c.b);
  EXPECT_TRUE(is_near(floats(run(Op::layernorm, {c.hx, c.hg, c.hb}, {{"eps", kEps}})[0]), normalized(x, g, b, true),
                      kTolerance));
  const auto grads = run(Op::layernorm_grad, {c.hdy, c.hx, c.hg}, {{"eps", kEps}});
  const auto gradient = [&](const std::function<Vector(const Vector&)>& f, const Vector& at) {
    return numeric_gradient([&](const Vector& v) { return weighted_sum(c.dy, f(v)); }, at);
  };
  EXPECT_TRUE(
      is_near(floats(grads[0]), gradient([&](const Vector& v) { return normalized(v, g, b, true); }, x), kTolerance));
  EXPECT_TRUE(
      is_near(floats(grads[1]), gradient([&](const Vector& v) { return normalized(x, v, b, true); }, g), kTolerance));
  EXPECT_TRUE(
      is_near(floats(grads[2]), gradient([&](const Vector& v) { return normalized(x, g, v, true); }, b), kTolerance));
}

TEST(Rmsnorm, rounds_once_an_operation_in_the_stated_order) {
  const NormCase c;
  std::vector<float> want;
  for (size_t t = 0; t < kRows; ++t) {
    const float* x = c.x.data() + t * kWidth;
    const float ms = scalar::rowsum_products(x, x, kWidth) / static_cast<float>(kWidth);
    const float r = 1.0f / std::sqrt(ms + static_cast<float>(kEps));
    for (size_t i = 0; i < kWidth; ++i) want.push_back(x[i] * r * c.g[i]);
  }
  EXPECT_TRUE(same_bits(floats(run(Op::rmsnorm, {c.hx, c.hg}, {{"eps", kEps}})[0]), want));
}

TEST(Layernorm, rounds_once_an_operation_in_the_stated_order) {
  const NormCase c;
  std::vector<float> want;
  for (size_t t = 0; t < kRows; ++t) {
    std::vector<float> d(c.x.begin() + static_cast<long>(t * kWidth),
                         c.x.begin() + static_cast<long>((t + 1) * kWidth));
    const float mean = scalar::rowsum(d.data(), kWidth) / static_cast<float>(kWidth);
    for (float& v : d) v = v - mean;
    const float var = scalar::rowsum_products(d.data(), d.data(), kWidth) / static_cast<float>(kWidth);
    const float r = 1.0f / std::sqrt(var + static_cast<float>(kEps));
    for (size_t i = 0; i < kWidth; ++i) want.push_back(std::fma(d[i] * r, c.g[i], c.b[i]));
  }
  EXPECT_TRUE(same_bits(floats(run(Op::layernorm, {c.hx, c.hg, c.hb}, {{"eps", kEps}})[0]), want));
}

TEST(Norms, a_nan_stays_in_its_row) {
  NormCase c;
  c.x[kWidth + 3] = kNan;
  for (const auto& [op, inputs] : {std::pair{Op::rmsnorm, std::vector{f32_value({kRows, kWidth}, c.x), c.hg}},
                                   {Op::layernorm, std::vector{f32_value({kRows, kWidth}, c.x), c.hg, c.hb}}}) {
    const std::vector<float> y = floats(run(op, inputs, {{"eps", kEps}})[0]);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / kWidth == 1);
  }
}

// ---- causal softmax ----

constexpr size_t kContext = 37;
constexpr double kScale = 0.35355339059327379;

Vector softmax64(const Vector& z) {
  Vector p(z.size(), 0.0);
  for (size_t row = 0; row < z.size() / kContext; ++row) {
    double sum = 0;
    const size_t n = row % kContext + 1, at = row * kContext;
    for (size_t j = 0; j < n; ++j) sum += p[at + j] = std::exp(z[at + j] * kScale);
    for (size_t j = 0; j < n; ++j) p[at + j] /= sum;
  }
  return p;
}

TEST(CausalSoftmax, values_and_gradients_agree_with_binary64) {
  const std::vector<float> z = uniform_floats(2 * kContext * kContext, 6, 5), dp = uniform_floats(z.size(), 1, 6);
  const Shape shape{2, kContext, kContext};
  const HostValue p = run(Op::causal_softmax, {f32_value(shape, z)}, {{"scale", kScale}})[0];
  EXPECT_TRUE(is_near(floats(p), softmax64(doubles(z)), kTolerance));
  const auto dz = run(Op::causal_softmax_grad, {f32_value(shape, dp), p}, {{"scale", kScale}})[0];
  const Vector want = numeric_gradient([&](const Vector& v) { return weighted_sum(dp, softmax64(v)); }, doubles(z));
  EXPECT_TRUE(is_near(floats(dz), want, kTolerance));
}

TEST(CausalSoftmax, rounds_once_an_operation_in_the_stated_order) {
  const std::vector<float> z = uniform_floats(kContext * kContext, 6, 7);
  const std::vector<float> p =
      floats(run(Op::causal_softmax, {f32_value({kContext, kContext}, z)}, {{"scale", kScale}})[0]);
  std::vector<float> e(z.end() - static_cast<long>(kContext), z.end());
  float mx = -kInf;
  for (float& v : e) mx = std::max(mx, v = v * static_cast<float>(kScale));
  for (float& v : e) v = scalar::exp_f32(v - mx);
  const float sum = scalar::rowsum(e.data(), kContext);
  for (float& v : e) v = v / sum;
  EXPECT_TRUE(same_bits(std::vector<float>(p.end() - static_cast<long>(kContext), p.end()), e));
}

TEST(CausalSoftmax, masked_elements_are_plus_zero_and_never_read) {
  const std::vector<float> z{1.0f, kNan, kInf, 2.0f, 2.0f, kNan, 0.0f, 0.0f, 0.0f};
  const HostValue p = run(Op::causal_softmax, {f32_value({3, 3}, z)}, {{"scale", 1.0}})[0];
  const float third = 1.0f / 3.0f;
  EXPECT_TRUE(same_bits(floats(p), {1.0f, 0.0f, 0.0f, 0.5f, 0.5f, 0.0f, third, third, third}));
  const std::vector<float> dp{-1.0f, kNan, kNan, 1.0f, -1.0f, kInf, 3.0f, 3.0f, 3.0f};
  const std::vector<float> dz = floats(run(Op::causal_softmax_grad, {f32_value({3, 3}, dp), p}, {{"scale", 2.0}})[0]);
  EXPECT_TRUE(same_bits({dz[1], dz[2], dz[5]}, {0.0f, 0.0f, 0.0f}));
  EXPECT_TRUE(same_bits({dz[3], dz[4]}, {1.0f, -1.0f}));
}

TEST(CausalSoftmax, nonfinite_rows) {
  // Row 1: one −Inf is an ordinary zero. Row 2: only −Inf. Row 3: +Inf. Row 4: NaN.
  std::vector<float> z(25, 0.0f);
  z[6] = -kInf;
  z[10] = z[11] = z[12] = -kInf;
  z[15] = kInf;
  z[22] = kNan;
  const std::vector<float> p = floats(run(Op::causal_softmax, {f32_value({5, 5}, z)}, {{"scale", 1.0}})[0]);
  EXPECT_TRUE(same_bits({p[5], p[6]}, {1.0f, 0.0f}));
  for (size_t i = 10; i < 25; ++i) {
    const bool used = i % 5 <= i / 5;
    EXPECT_TRUE(same_bits(p[i], used ? kNan : 0.0f)) << i;
  }
}

// ---- cross entropy ----

constexpr size_t kTokens = 4, kClasses = 50;
const std::vector<int32_t> kTargets{0, 49, 17, 3};

Vector losses64(const Vector& z) {
  Vector losses;
  for (size_t t = 0; t < kTokens; ++t) {
    double sum = 0;
    for (size_t j = 0; j < kClasses; ++j) sum += std::exp(z[t * kClasses + j]);
    losses.push_back(std::log(sum) - z[t * kClasses + static_cast<size_t>(kTargets[t])]);
  }
  return losses;
}

TEST(CrossEntropy, values_and_gradients_agree_with_binary64) {
  const std::vector<float> z = uniform_floats(kTokens * kClasses, 5, 8);
  const HostValue logits = f32_value({kTokens, kClasses}, z), targets = i32_value({kTokens}, kTargets);
  EXPECT_TRUE(is_near(floats(run(Op::cross_entropy, {logits, targets}, {})[0]), losses64(doubles(z)), kTolerance));
  StepInfo step;
  step.loss_scale = 8;
  const auto dz = run(Op::cross_entropy_grad, {logits, targets, step_value(step)}, {{"total_rows", int64_t{16}}})[0];
  const std::vector<float> weights(kTokens, 0.5f);  // 8/16
  const Vector want = numeric_gradient([&](const Vector& v) { return weighted_sum(weights, losses64(v)); }, doubles(z));
  EXPECT_TRUE(is_near(floats(dz), want, kTolerance));
}

TEST(CrossEntropy, rounds_once_an_operation_in_the_stated_order) {
  const std::vector<float> z = uniform_floats(kClasses, 5, 9);
  const HostValue logits = f32_value({1, kClasses}, z), targets = i32_value({1}, {7});
  const float mx = *std::max_element(z.begin(), z.end());
  std::vector<float> e;
  for (const float v : z) e.push_back(scalar::exp_f32(v - mx));
  const float sum = scalar::rowsum(e.data(), kClasses);
  EXPECT_TRUE(
      same_bits(floats(run(Op::cross_entropy, {logits, targets}, {})[0]), {(mx + scalar::log_f32(sum)) - z[7]}));
  StepInfo step;
  step.loss_scale = 4;
  const float w = 4.0f / 3.0f;
  for (float& v : e) v = v / sum;
  e[7] = e[7] - 1.0f;
  for (float& v : e) v = v * w;
  const auto dz = run(Op::cross_entropy_grad, {logits, targets, step_value(step)}, {{"total_rows", int64_t{3}}})[0];
  EXPECT_TRUE(same_bits(floats(dz), e));
}

TEST(CrossEntropy, nonfinite_rows_give_nan_and_stay_apart) {
  const std::vector<float> z{0.0f, 0.0f, kNan, 0.0f, kInf, 0.0f, -kInf, -kInf, -kInf, 0.0f};
  const HostValue logits = f32_value({5, 2}, z), targets = i32_value({5}, {0, 1, 1, 0, 1});
  const std::vector<float> losses = floats(run(Op::cross_entropy, {logits, targets}, {})[0]);
  EXPECT_TRUE(same_bits(losses, {0x1.62e43p-1f, kNan, kNan, kNan, 0.0f}));
  const auto dz = run(Op::cross_entropy_grad, {logits, targets, step_value({})}, {{"total_rows", int64_t{1}}})[0];
  EXPECT_TRUE(same_bits(floats(dz), {-0.5f, 0.5f, kNan, kNan, kNan, kNan, kNan, kNan, 0.0f, 0.0f}));
}

TEST(CrossEntropy, a_target_outside_the_classes_is_an_error) {
  const HostValue logits = f32_value({1, 2}, {0.0f, 0.0f});
  for (const int32_t target : {-1, 2})
    EXPECT_THROW(run(Op::cross_entropy, {logits, i32_value({1}, {target})}, {}), Error) << target;
}

}  // namespace
}  // namespace fp4sim::test
