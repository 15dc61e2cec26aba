// Ops with row and column sums: every level gives scalar's bits, whatever the number of threads.
#include "tests/simd_levels.h"

namespace fp4sim::test {
namespace {

/// Rows and columns around the boundaries of lanes, chunks and panels; a few large ones reach several threads.
struct RowShape {
  int64_t rows, cols;
};
const RowShape kRowShapes[] = {{1, 1},     {3, 31},    {5, 32},   {4, 33},   {7, 100},  {1, 4095},
                               {2, 4096},  {2, 4097},  {1, 8193}, {1023, 3}, {1024, 5}, {1025, 17},
                               {2100, 40}, {600, 129}, {33, 300}, {0, 8}};

HostValue values(uint64_t seed, const Shape& shape, Fill fill) {
  return f32_value(shape, random_floats(seed, element_count(shape), fill));
}

/// expect(rows, cols, seed, fill) over the table and over random small shapes.
template <class Expect>
void for_shapes(const Expect& expect) {
  for (const RowShape& s : kRowShapes) {
    for (const Fill fill : kFills) {
      const testing::AssertionResult same = expect(s.rows, s.cols, 1, fill);
      EXPECT_TRUE(same) << "(" << s.rows << ", " << s.cols << ")";
    }
  }
  rc::check([&] {
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    const auto rows = *rc::gen::inRange<int64_t>(1, 6);
    const auto cols = *rc::gen::elementOf(kLengths);
    const auto fill = *rc::gen::element(Fill::ordinary, Fill::wide, Fill::corners);
    const testing::AssertionResult same = expect(rows, cols, seed, fill);
    if (!same) RC_FAIL(same.message());
  });
}

const Attrs kEps{{"eps", 1e-5}};

TEST(SimdNorms, rmsnorm_equals_scalar) {
  for_shapes([](int64_t rows, int64_t cols, uint64_t seed, Fill fill) {
    return levels_give_scalar_bits(Op::rmsnorm, {values(seed, {rows, cols}, fill), values(seed + 1, {cols}, fill)},
                                   kEps);
  });
}

TEST(SimdNorms, rmsnorm_grad_equals_scalar) {
  for_shapes([](int64_t rows, int64_t cols, uint64_t seed, Fill fill) {
    return levels_give_scalar_bits(
        Op::rmsnorm_grad,
        {values(seed, {rows, cols}, fill), values(seed + 1, {rows, cols}, fill), values(seed + 2, {cols}, fill)}, kEps);
  });
}

TEST(SimdNorms, layernorm_equals_scalar) {
  for_shapes([](int64_t rows, int64_t cols, uint64_t seed, Fill fill) {
    return levels_give_scalar_bits(
        Op::layernorm,
        {values(seed, {rows, cols}, fill), values(seed + 1, {cols}, fill), values(seed + 2, {cols}, fill)}, kEps);
  });
}

TEST(SimdNorms, layernorm_grad_equals_scalar) {
  for_shapes([](int64_t rows, int64_t cols, uint64_t seed, Fill fill) {
    return levels_give_scalar_bits(
        Op::layernorm_grad,
        {values(seed, {rows, cols}, fill), values(seed + 1, {rows, cols}, fill), values(seed + 2, {cols}, fill)}, kEps);
  });
}

TEST(SimdRope, both_styles_and_directions_equal_scalar) {
  for (const char* style : {"interleaved", "half"}) {
    for (const int64_t inverse : {0, 1}) {
      for (const int64_t width : {2, 6, 16, 30, 32, 34, 64, 66, 128}) {
        for (const Fill fill : kFills) {
          const Shape shape{3, 9, width}, table{11, width / 2};
          EXPECT_TRUE(levels_give_scalar_bits(Op::rope,
                                              {values(1, shape, fill), values(2, table, fill), values(3, table, fill)},
                                              {{"style", style}, {"inverse", inverse}}))
              << style << " width " << width;
        }
      }
    }
  }
  const Shape large{8, 64, 64}, table{64, 32};
  EXPECT_TRUE(levels_give_scalar_bits(
      Op::rope, {values(1, large, Fill::ordinary), values(2, table, Fill::ordinary), values(3, table, Fill::ordinary)},
      {{"style", "half"}}));
}

TEST(SimdSoftmax, causal_softmax_and_its_gradient_use_the_lower_triangle_only) {
  for (const int64_t n : {1, 2, 5, 16, 31, 32, 33, 64, 65, 100, 257}) {
    for (const Fill fill : kFills) {
      const Shape shape{3, n, n};
      const Attrs attrs{{"scale", 0.125}};
      EXPECT_TRUE(levels_give_scalar_bits(Op::causal_softmax, {values(4, shape, fill)}, attrs)) << n;
      EXPECT_TRUE(levels_give_scalar_bits(Op::causal_softmax, {values(5, shape, fill)}, attrs)) << n;
      EXPECT_TRUE(
          levels_give_scalar_bits(Op::causal_softmax_grad, {values(6, shape, fill), values(7, shape, fill)}, attrs))
          << n;
    }
  }
}

TEST(SimdSoftmax, cross_entropy_and_its_gradient_equal_scalar) {
  StepInfo step;
  step.loss_scale = 8;
  for_shapes([&](int64_t rows, int64_t cols, uint64_t seed, Fill fill) {
    std::vector<int32_t> targets(static_cast<size_t>(rows));
    for (size_t t = 0; t < targets.size(); ++t) targets[t] = static_cast<int32_t>((seed + 31 * t) % uint64_t(cols));
    const HostValue logits = values(seed, {rows, cols}, fill), wanted = i32_value({rows}, targets);
    const testing::AssertionResult losses = levels_give_scalar_bits(Op::cross_entropy, {logits, wanted});
    if (!losses) return losses;
    return levels_give_scalar_bits(Op::cross_entropy_grad, {logits, wanted, step_value(step)},
                                   {{"total_rows", int64_t{48}}});
  });
}

TEST(SimdSums, column_sum_adds_panels_of_1024_rows_in_order) {
  for_shapes([](int64_t rows, int64_t cols, uint64_t seed, Fill fill) {
    return levels_give_scalar_bits(Op::column_sum, {values(seed, {rows, cols}, fill)}, {{"columns", cols}});
  });
  EXPECT_TRUE(
      levels_give_scalar_bits(Op::column_sum, {values(3, {5000, 700}, Fill::ordinary)}, {{"columns", int64_t{700}}}));
}

TEST(SimdSums, mean_and_norm_reduce_chunks_of_4096_by_the_same_rule) {
  for (const int64_t n : {0, 1, 31, 33, 4095, 4096, 4097, 131073, 300001}) {
    for (const Fill fill : kFills) {
      EXPECT_TRUE(levels_give_scalar_bits(Op::mean, {values(8, {n}, fill)})) << n;
      EXPECT_TRUE(levels_give_scalar_bits(Op::norm,
                                          {values(9, {n}, fill), values(10, {3, 5}, fill), values(11, {40000}, fill)}))
          << n;
    }
  }
  for (const Fill fill : {Fill::ordinary, Fill::wide})
    EXPECT_TRUE(levels_give_scalar_bits(Op::mean, {values(12, {4096 * 4096 + 5000}, fill)}))
        << "chunk results of more than one chunk";
}

TEST(SimdSums, a_lane_without_a_further_element_keeps_a_negative_zero) {
  // fma of a tiny negative product and +0 is −0, and stays so over products −0. The sum t of a row of 33 … 64 such
  // elements is −0 only if lanes without a second element are left alone; (−0) − t shows its sign.
  constexpr int64_t n = 64;
  std::vector<float> dp(n * n), p(n * n, 0x1p-100f);
  for (int64_t i = 0; i < n * n; ++i) dp[static_cast<size_t>(i)] = i % n < 32 ? -0x1p-100f : -0.0f;
  EXPECT_TRUE(levels_give_scalar_bits(Op::causal_softmax_grad, {f32_value({n, n}, dp), f32_value({n, n}, p)},
                                      {{"scale", 1.0}}));
  const std::vector<float> dz = floats(run_node(*simd::make_backend(1), Op::causal_softmax_grad,
                                                {f32_value({n, n}, dp), f32_value({n, n}, p)}, {{"scale", 1.0}})[0]);
  EXPECT_FALSE(std::signbit(dz[40 * n + 36])) << "(−0) − (−0) is +0";
}

}  // namespace
}  // namespace fp4sim::test
