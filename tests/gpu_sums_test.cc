// Sums and softmaxes of the cuda backend in sizes where their kernels change shape: panels in rounds, narrow and wide
// tiles of columns, rows of several chunks, more tensors than one launch takes. The results are those of scalar.
#include <bit>
#include <cmath>
#include <random>

#include "pch.h"
#include "reference/scalar/backend.h"
#include "tests/gpu_device.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

/// Numbers near 1, and some zeros of both signs and subnormals; among them `specials` NaN and infinities.
std::vector<float> drawn(int64_t n, unsigned seed, int specials = 0) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    const uint32_t word = static_cast<uint32_t>(random());
    v = static_cast<float>(static_cast<int>(word >> 8) - (1 << 23)) * 0x1p-23f;
    if (word % 61 == 0) v = std::bit_cast<float>(word & 0x80000000u);
    if (word % 67 == 0) v = std::bit_cast<float>(word & 0x800FFFFFu);
  }
  for (int i = 0; i < specials && n > 0; ++i)
    x[random() % x.size()] = std::bit_cast<float>(i % 2 == 0 ? 0xFFC00001u : 0x7F800000u);
  return x;
}

class GpuSums : public NeedsDevice<> {
 protected:
  void SetUp() override {
    NeedsDevice<>::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    cuda_ = gpu::make_backend();
  }
  void expect_bits_of_scalar(Op op, const std::vector<HostValue>& inputs, const Attrs& attrs, const std::string& what) {
    const std::vector<HostValue> want = run_node(*scalar_, op, inputs, attrs),
                                 got = run_node(*cuda_, op, inputs, attrs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t o = 0; o < want.size(); ++o) {
      const std::vector<float> w = floats(want[o]), g = floats(got[o]);
      ASSERT_EQ(g.size(), w.size());
      for (size_t i = 0; i < w.size(); ++i)
        ASSERT_TRUE(std::bit_cast<uint32_t>(g[i]) == std::bit_cast<uint32_t>(w[i]) || (g[i] != g[i] && w[i] != w[i]))
            << op_name(op) << ' ' << what << ": output " << o << " element " << i << " is " << g[i] << ", expected "
            << w[i];
    }
  }

 private:
  std::unique_ptr<Backend> cuda_, scalar_ = scalar::make_backend();
};

TEST_F(GpuSums, embeddings_of_any_frequency_get_the_gradients_of_scalar) {
  struct Case {
    int64_t positions, width, rows;
    unsigned skew;  // one id has every skew-th position; 0: all of them
  };
  for (const Case& c : {Case{1, 1, 1, 0}, Case{1023, 33, 300, 3}, Case{1024, 32, 5, 2}, Case{1025, 31, 65, 0},
                        Case{5000, 100, 2000, 4}, Case{16384, 70, 256, 6}, Case{70001, 9, 7, 2}}) {
    std::mt19937 random(static_cast<unsigned>(c.positions));
    std::vector<int32_t> ids(static_cast<size_t>(c.positions));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % static_cast<uint64_t>(c.rows));
      if (c.skew == 0 || random() % c.skew == 0) id = static_cast<int32_t>(c.rows / 2);
    }
    const auto seed = static_cast<unsigned>(c.width);
    expect_bits_of_scalar(
        Op::embedding_grad,
        {i32_value({c.positions}, ids), f32_value({c.positions, c.width}, drawn(c.positions * c.width, seed, 3))},
        {{"rows", c.rows}}, std::to_string(c.positions) + " x " + std::to_string(c.width));
  }
}

/// Rows and columns of matrices whose columns are summed: few columns, many, and so many that tiles are wide.
struct Matrix {
  int64_t rows, columns;
};
constexpr Matrix kMatrices[] = {{1, 1},      {31, 7},     {64, 16},     {1024, 20},  {1025, 5},
                                {2100, 384}, {17500, 12}, {1100, 8448}, {1030, 8450}};

TEST_F(GpuSums, columns_of_every_number_have_the_sums_of_scalar) {
  for (const Matrix& m : kMatrices)
    expect_bits_of_scalar(Op::column_sum, {f32_value({m.rows, m.columns}, drawn(m.rows * m.columns, 1, 5))},
                          {{"columns", m.columns}}, std::to_string(m.rows) + " x " + std::to_string(m.columns));
}

TEST_F(GpuSums, gains_of_every_width_get_the_gradients_of_scalar) {
  for (const Matrix& m : kMatrices)
    for (const Op op : {Op::layernorm_grad, Op::rmsnorm_grad}) {
      const int64_t n = m.rows * m.columns;
      expect_bits_of_scalar(op,
                            {f32_value({m.rows, m.columns}, drawn(n, 1, m.rows > 100 ? 2 : 0)),
                             f32_value({m.rows, m.columns}, drawn(n, 2)), f32_value({m.columns}, drawn(m.columns, 3))},
                            {{"eps", 1e-5}}, std::to_string(m.rows) + " x " + std::to_string(m.columns));
    }
}

TEST_F(GpuSums, panels_that_underflow_keep_their_sign) {  // fma(a, b, +0) is −0 where −a·b is tiny
  const std::vector<float> tiny(1025, -0x1p-149f), half(1025, 0.25f);
  expect_bits_of_scalar(Op::rmsnorm_grad,
                        {f32_value({1025, 1}, tiny), f32_value({1025, 1}, half), f32_value({1}, {1.0f})},
                        {{"eps", 1.0}}, "underflow");
}

TEST_F(GpuSums, norms_and_means_of_any_length_are_those_of_scalar) {
  for (const int64_t n : {1, 31, 33, 1023, 1025, 4095, 4096, 4097, 8192, 131072, 4096 * 33 + 5, 4096 * 4100 + 77}) {
    const HostValue x = f32_value({n}, drawn(n, static_cast<unsigned>(n)));
    expect_bits_of_scalar(Op::mean, {x}, {}, std::to_string(n));
    expect_bits_of_scalar(Op::norm, {x, f32_value({5}, drawn(5, 1)), x}, {}, std::to_string(n));
  }
  for (const int64_t tensors : {127, 128, 129, 300}) {
    std::vector<HostValue> many;
    for (int64_t i = 0; i < tensors; ++i) many.push_back(f32_value({i % 9 * 700}, drawn(i % 9 * 700, 7)));
    expect_bits_of_scalar(Op::norm, many, {}, std::to_string(tensors) + " tensors");
  }
}

TEST_F(GpuSums, softmaxes_of_rows_of_every_length_and_spread_are_those_of_scalar) {
  for (const int64_t size : {1, 31, 33, 64, 129, 256, 300, 511, 1025})
    for (const float spread : {1e-3f, 4.0f, 90.0f, 1e4f}) {
      const int64_t matrices = size < 300 ? 3 : 1, rows = matrices * size, n = rows * size;
      std::vector<float> z = drawn(n, 1, size > 100 ? 6 : 0);
      for (float& v : z) v = v * spread;
      const std::string what = std::to_string(size) + " of spread " + std::to_string(spread);
      const HostValue square = f32_value({matrices, size, size}, z), flat = f32_value({rows, size}, z);
      expect_bits_of_scalar(Op::causal_softmax, {square}, {{"scale", 0.7}}, what);
      expect_bits_of_scalar(Op::causal_softmax_grad, {square, f32_value({matrices, size, size}, drawn(n, 2))},
                            {{"scale", 0.7}}, what);
      std::vector<int32_t> targets(static_cast<size_t>(rows));
      for (size_t t = 0; t < targets.size(); ++t) targets[t] = static_cast<int32_t>(t % static_cast<size_t>(size));
      expect_bits_of_scalar(Op::cross_entropy, {flat, i32_value({rows}, targets)}, {}, what);
      StepInfo step;
      step.loss_scale = 8;
      expect_bits_of_scalar(Op::cross_entropy_grad, {flat, i32_value({rows}, targets), step_value(step)},
                            {{"total_rows", rows}}, what);
    }
}

}  // namespace
}  // namespace fp4sim::test
