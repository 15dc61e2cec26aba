// add, mul, scale, permute, repeat_kv, concat, silu, gelu and rope of the scalar backend.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "reference/scalar/backend.h"
#include "reference/scalar/elementary.h"
#include "tests/bits.h"
#include "tests/finite_difference.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::vector<HostValue> run(Op op, const std::vector<HostValue>& inputs, Attrs attrs = {}) {
  const auto backend = scalar::make_backend();
  return run_node(*backend, op, inputs, std::move(attrs));
}
std::vector<float> run_floats(Op op, const std::vector<HostValue>& inputs, Attrs attrs = {}) {
  return floats(run(op, inputs, std::move(attrs))[0]);
}
HostValue row(const std::vector<float>& x) { return f32_value({static_cast<int64_t>(x.size())}, x); }
std::vector<float> counting(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

TEST(Elementwise, add_and_mul_repeat_the_second_operand) {
  const HostValue x = f32_value({2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, kInf}), b = row({0.5f, -2.0f, -0.0f});
  EXPECT_TRUE(same_bits(run_floats(Op::add, {x, b}), {1.5f, 0.0f, 3.0f, 4.5f, 3.0f, kInf}));
  EXPECT_TRUE(same_bits(run_floats(Op::mul, {x, b}), {0.5f, -4.0f, -0.0f, 2.0f, -10.0f, kNan}));
  EXPECT_TRUE(same_bits(run_floats(Op::add, {x, x}), {2.0f, 4.0f, 6.0f, 8.0f, 10.0f, kInf}));
  EXPECT_TRUE(same_bits(run_floats(Op::add, {row({-0.0f, 0x1p-149f}), row({-0.0f, 0x1p-149f})}), {-0.0f, 0x1p-148f}));
}

TEST(Elementwise, scale_rounds_its_factor_once) {
  const std::vector<float> x{1.0f, 3.0f, -0.0f, kMax, kNan, 0x1p-149f};
  const float third = static_cast<float>(1.0 / 3.0);
  EXPECT_TRUE(same_bits(run_floats(Op::scale, {row(x)}, {{"factor", 1.0 / 3.0}}),
                        {third, 3.0f * third, -0.0f, kMax * third, kNan, 0.0f}));
}

TEST(Elementwise, permute_moves_axes) {
  const std::vector<float> x = counting(24);
  const HostValue y =
      run(Op::permute, {f32_value({2, 12}, x)}, {{"view", "2,3,4"}, {"perm", "1,0,2"}, {"shape", "3,8"}})[0];
  EXPECT_EQ(y.type.shape, (Shape{3, 8}));
  std::vector<float> want;
  for (size_t s = 0; s < 3; ++s)
    for (size_t b = 0; b < 2; ++b)
      for (size_t d = 0; d < 4; ++d) want.push_back(x[(b * 3 + s) * 4 + d]);
  EXPECT_TRUE(same_bits(floats(y), want));
}

TEST(Elementwise, permute_and_its_inverse_keep_every_bit) {
  // view (2, 3, 4, 5) by 3,1,0,2 is (5, 3, 2, 4); its inverse permutation is 2,1,3,0.
  std::vector<uint16_t> bits(120);
  std::iota(bits.begin(), bits.end(), uint16_t{0x7F60});  // Inf and NaN payloads among them
  const HostValue there =
      run(Op::permute, {bf16_value({120}, bits)}, {{"view", "2,3,4,5"}, {"perm", "3,1,0,2"}, {"shape", "5,3,2,4"}})[0];
  EXPECT_NE(elements<uint16_t>(there), bits);
  const HostValue back = run(Op::permute, {there}, {{"view", "5,3,2,4"}, {"perm", "2,1,3,0"}, {"shape", "120"}})[0];
  EXPECT_EQ(elements<uint16_t>(back), bits);
}

TEST(Elementwise, repeat_kv_gives_each_group_to_neighbouring_heads) {
  const std::vector<float> x = counting(8);  // (batch 2 · groups 2, S 1, D 2)
  const Attrs attrs{{"repeats", int64_t{3}}, {"groups", int64_t{2}}};
  const HostValue y = run(Op::repeat_kv, {f32_value({4, 1, 2}, x)}, attrs)[0];
  EXPECT_EQ(y.type.shape, (Shape{12, 1, 2}));
  std::vector<float> want;
  for (const float group : {0.0f, 2.0f, 4.0f, 6.0f})
    for (int r = 0; r < 3; ++r) want.push_back(group), want.push_back(group + 1);
  EXPECT_TRUE(same_bits(floats(y), want));
}

TEST(Elementwise, repeat_kv_grad_adds_the_copies_in_ascending_head_order) {
  const std::vector<float> dy{0x1p30f, 1.0f, -0x1p30f, -0.0f, -0.0f, -0.0f};  // (1·2·3, 1, 1)
  const Attrs attrs{{"repeats", int64_t{3}}, {"groups", int64_t{2}}};
  // (2^30 + 1) − 2^30 loses the 1; the sum starts as a copy, so −0 stays −0.
  EXPECT_TRUE(same_bits(run_floats(Op::repeat_kv_grad, {f32_value({6, 1, 1}, dy)}, attrs), {0.0f, -0.0f}));
}

TEST(Elementwise, concat_joins_in_input_order) {
  EXPECT_TRUE(same_bits(run_floats(Op::concat, {row({1.0f, -0.0f}), row({}), row({3.0f})}), {1.0f, -0.0f, 3.0f}));
}

// ---- activations ----

double silu64(double x) { return x / (1 + std::exp(-x)); }
double gelu64(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

struct ActivationRow {
  const char* name;
  Op op, grad;
  double (*f)(double);
};

class Activations : public testing::TestWithParam<ActivationRow> {};

TEST_P(Activations, values_and_gradients_agree_with_binary64) {
  const std::vector<float> x = uniform_floats(2000, 12, 1), dy = uniform_floats(2000, 1, 2);
  Vector y, dx;
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    y.push_back(GetParam().f(at));
    dx.push_back(static_cast<double>(dy[i]) * (GetParam().f(at + 1e-5) - GetParam().f(at - 1e-5)) / 2e-5);
  }
  EXPECT_TRUE(is_near(run_floats(GetParam().op, {row(x)}), y, 1e-7));
  EXPECT_TRUE(is_near(run_floats(GetParam().grad, {row(dy), row(x)}), dx, 1e-6));
}

TEST_P(Activations, corner_values_are_the_formula_s) {
  const std::vector<float> x{0.0f, -0.0f, kMax, -kMax, kInf, -kInf, kNan, 0x1p-149f};
  EXPECT_TRUE(same_bits(run_floats(GetParam().op, {row(x)}), {0.0f, -0.0f, kMax, -0.0f, kInf, kNan, kNan, 0.0f}));
  const std::vector<float> ones(x.size(), 1.0f);
  const std::vector<float> dx = run_floats(GetParam().grad, {row(ones), row(x)});
  EXPECT_TRUE(same_bits({dx[0], dx[1], dx[2], dx[7]}, {0.5f, 0.5f, 1.0f, 0.5f}));
  EXPECT_EQ(dx[3], 0.0f);
  EXPECT_TRUE(std::isnan(dx[4]) && std::isnan(dx[5]) && std::isnan(dx[6]));
}

INSTANTIATE_TEST_SUITE_P(Rows, Activations,
                         testing::Values(ActivationRow{"silu", Op::silu, Op::silu_grad, silu64},
                                         ActivationRow{"gelu", Op::gelu, Op::gelu_grad, gelu64}),
                         [](const auto& r) { return r.param.name; });

TEST(Gelu, keeps_relative_precision_far_below_zero) {
  // The tanh form cancels below −5; the sigmoid form stays within a rounding of x·e^(2u).
  const double x = -8, u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  const float y = run_floats(Op::gelu, {row({-8.0f})})[0];
  EXPECT_LT(std::fabs(y - x * std::exp(2 * u)), 1e-7 * std::fabs(y));
  EXPECT_LT(y, 0.0f);
}

// ---- rope ----

/// Tables (positions, half) of plain angles.
std::pair<HostValue, HostValue> tables(size_t positions, size_t half) {
  std::vector<float> c, s;
  for (size_t p = 0; p < positions; ++p)
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) / (1.0 + static_cast<double>(i));
      c.push_back(static_cast<float>(std::cos(angle))), s.push_back(static_cast<float>(std::sin(angle)));
    }
  const Shape shape{static_cast<int64_t>(positions), static_cast<int64_t>(half)};
  return {f32_value(shape, c), f32_value(shape, s)};
}

class Rope : public testing::TestWithParam<const char*> {};

TEST_P(Rope, turns_every_pair_by_its_position_with_one_fma_each) {
  constexpr size_t kMatrices = 2, kPositions = 3, kWidth = 8, kHalf = kWidth / 2;
  const std::vector<float> x = uniform_floats(kMatrices * kPositions * kWidth, 2, 3);
  const auto [cosines, sines] = tables(kPositions + 2, kHalf);  // a longer table than needed
  const std::vector<float> c = floats(cosines), s = floats(sines);
  const bool half_split = std::string(GetParam()) == "half";
  std::vector<float> want(x.size());
  for (size_t r = 0; r < kMatrices * kPositions; ++r)
    for (size_t i = 0; i < kHalf; ++i) {
      const size_t i0 = r * kWidth + (half_split ? i : 2 * i), i1 = r * kWidth + (half_split ? i + kHalf : 2 * i + 1);
      const size_t at = r % kPositions * kHalf + i;
      want[i0] = std::fma(-x[i1], s[at], x[i0] * c[at]);
      want[i1] = std::fma(x[i1], c[at], x[i0] * s[at]);
    }
  const Shape shape{kMatrices, kPositions, kWidth};
  EXPECT_TRUE(same_bits(run_floats(Op::rope, {f32_value(shape, x), cosines, sines}, {{"style", GetParam()}}), want));
}

TEST_P(Rope, inverse_is_the_gradient) {
  constexpr size_t kPositions = 4, kWidth = 6;
  const std::vector<float> x = uniform_floats(kPositions * kWidth, 1, 4), dy = uniform_floats(x.size(), 1, 5);
  const auto [cosines, sines] = tables(kPositions, kWidth / 2);
  const Shape shape{kPositions, kWidth};
  const auto turn = [&, c = cosines, s = sines](const std::vector<float>& v, int64_t inverse) {
    return run_floats(Op::rope, {f32_value(shape, v), c, s}, {{"style", GetParam()}, {"inverse", inverse}});
  };
  // A linear map: ⟨dy, R x⟩ = ⟨Rᵀ dy, x⟩ for every basis vector x.
  std::vector<float> gradient;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<float> basis(x.size(), 0.0f);
    basis[i] = 1.0f;
    gradient.push_back(static_cast<float>(weighted_sum(dy, doubles(turn(basis, 0)))));
  }
  EXPECT_TRUE(is_near(turn(dy, 1), doubles(gradient), 1e-6));
  EXPECT_TRUE(is_near(turn(turn(x, 0), 1), doubles(x), 1e-6));
}

INSTANTIATE_TEST_SUITE_P(Styles, Rope, testing::Values("interleaved", "half"), [](const auto& r) { return r.param; });

}  // namespace
}  // namespace fp4sim::test
