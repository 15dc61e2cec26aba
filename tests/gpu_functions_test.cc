// The elementary and element-wise device functions, compiled for the host, against scalar bit by bit. No device needed.
#include <bit>
#include <random>

#include "gpu/activations.cuh"
#include "gpu/adamw.cuh"
#include "gpu/arithmetic.cuh"
#include "gpu/elementary.cuh"
#include "pch.h"
#include "reference/contract/coefficients.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/elementary.h"
#include "reference/scalar/reduction.h"
#include "tests/bits.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

/// Every sign and exponent with corner and random fractions: 2·256·40 floats, NaN, Inf and subnormals among them.
std::vector<float> every_binade() {
  std::mt19937 random(7);
  std::vector<float> x;
  for (uint32_t high = 0; high < 512; ++high)
    for (uint32_t k = 0; k < 40; ++k) {
      const uint32_t corners[] = {0, 1, 0x400000, 0x3FFFFF, 0x7FFFFF};
      x.push_back(
          std::bit_cast<float>(high << 23 | (k < 5 ? corners[k] : static_cast<uint32_t>(random()) & 0x7FFFFFu)));
    }
  return x;
}

uint64_t canonical(double v) { return v != v ? 0x7FF8000000000000ull : std::bit_cast<uint64_t>(v); }

TEST(GpuFunctions, exp_log_and_tanh_in_binary64_give_the_bits_of_scalar) {
  std::mt19937_64 random(11);
  std::vector<double> x = {0.0,    -0.0,    1.0,       kExpOverflow, kExpUnderflow, 709.78,     -745.13,
                           -708.4, 0x1p-53, 0x1p-1074, -0x1p-1074,   0x1p-1022,     kTanhSmall, -kTanhSmall};
  for (const float v : every_binade()) x.push_back(static_cast<double>(v));
  for (int i = 0; i < 200000; ++i) x.push_back(std::bit_cast<double>(random()));
  for (int i = 0; i < 200000; ++i) x.push_back(static_cast<double>(random() >> 11) * 0x1p-43 - 700);
  for (const double v : x) {
    ASSERT_EQ(canonical(gpu::exp64(v)), canonical(scalar::exp64(v))) << v;
    ASSERT_EQ(canonical(gpu::log64(v)), canonical(scalar::log64(v))) << v;
    ASSERT_EQ(canonical(gpu::tanh64(v)), canonical(scalar::tanh64(v))) << v;
  }
}

TEST(GpuFunctions, exp_and_log_in_binary32_give_the_bits_of_scalar) {
  for (const float v : every_binade()) {
    ASSERT_TRUE(same_bits({gpu::exp_f32(v), gpu::log_f32(v)}, {scalar::exp_f32(v), scalar::log_f32(v)})) << v;
  }
}

/// f(x) by scalar's op.
std::vector<float> by_scalar(Op op, const std::vector<std::vector<float>>& inputs) {
  std::vector<HostValue> values;
  for (const auto& x : inputs) values.push_back(f32_value({static_cast<int64_t>(x.size())}, x));
  return floats(run_node(*scalar::make_backend(), op, values)[0]);
}

TEST(GpuFunctions, activations_and_their_slopes_give_the_bits_of_scalar) {
  const std::vector<float> x = every_binade(), dy(x.size(), 1.0f);
  const auto each = [&](float (*f)(float)) {
    std::vector<float> y;
    for (const float v : x) y.push_back(f(v));
    return y;
  };
  EXPECT_TRUE(same_bits(each(gpu::silu_value), by_scalar(Op::silu, {x})));
  EXPECT_TRUE(same_bits(each(gpu::silu_slope), by_scalar(Op::silu_grad, {dy, x})));
  EXPECT_TRUE(same_bits(each(gpu::gelu_value), by_scalar(Op::gelu, {x})));
  EXPECT_TRUE(same_bits(each(gpu::gelu_slope), by_scalar(Op::gelu_grad, {dy, x})));
}

TEST(GpuFunctions, bf16_conversions_give_the_bits_of_scalar) {
  for (const float v : every_binade())
    ASSERT_EQ(gpu::bf16_of(v), scalar::encode_value(static_cast<double>(v), kBf16, Rounding::rne, true)) << v;
  for (uint32_t code = 0; code < 65536; ++code)
    ASSERT_TRUE(same_bits({gpu::f32_of_bf16(static_cast<uint16_t>(code))}, {scalar::decode_code(code, kBf16)})) << code;
}

TEST(GpuFunctions, max_knows_nan_and_signed_zeros) {
  const float inf = INFINITY, nan = NAN;
  for (const float a : {0.0f, -0.0f, 1.0f, -1.0f, inf, -inf, nan})
    for (const float b : {0.0f, -0.0f, 1.0f, -1.0f, inf, -inf, nan})
      EXPECT_TRUE(same_bits({gpu::max_of(a, b)}, {scalar::max_of(a, b)})) << a << ' ' << b;
}

TEST(GpuFunctions, an_adamw_update_gives_the_bits_of_scalar) {
  std::mt19937 random(3);
  const auto draw = [&](float scale) { return (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f) * scale; };
  constexpr int64_t kCount = 4096;
  std::vector<float> p, m, v, g;
  for (int64_t i = 0; i < kCount; ++i) {
    p.push_back(draw(1.0f));
    m.push_back(draw(0.1f));
    v.push_back(std::fabs(draw(0.01f)));
    g.push_back(i % 7 == 0 ? 0.0f : draw(0.2f));
  }
  const StepInfo step{.step = 3, .lr = 3e-4, .beta1_power = 0.9 * 0.9 * 0.9, .beta2_power = 0.95 * 0.95 * 0.95};
  const Attrs attrs{{"weight_decay", 0.1}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}};
  const Shape shape{kCount};
  const std::vector<HostValue> want = run_node(
      *scalar::make_backend(), Op::adamw,
      {f32_value(shape, p), f32_value(shape, m), f32_value(shape, v), f32_value(shape, g), step_value(step)}, attrs);
  const gpu::AdamwConstants c{0.9f, 0.95f, static_cast<float>(1.0 - 0.9), static_cast<float>(1.0 - 0.95), 0.1f, 1e-8f};
  const gpu::AdamwStep s = gpu::adamw_step(c, step.lr, step.beta1_power, step.beta2_power);
  for (size_t i = 0; i < p.size(); ++i) gpu::adamw_update(c, s, g[i], p[i], m[i], v[i]);
  EXPECT_TRUE(same_bits(p, floats(want[0])));
  EXPECT_TRUE(same_bits(m, floats(want[1])));
  EXPECT_TRUE(same_bits(v, floats(want[2])));
}

}  // namespace
}  // namespace fp4sim::test
