// embedding and its gradient, column_sum and mean of the scalar backend.
#include <gtest/gtest.h>

#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/reduction.h"
#include "tests/bits.h"
#include "tests/finite_difference.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

std::vector<float> run(Op op, const std::vector<HostValue>& inputs, Attrs attrs = {}) {
  const auto backend = scalar::make_backend();
  return floats(run_node(*backend, op, inputs, std::move(attrs))[0]);
}

TEST(Embedding, copies_rows) {
  const HostValue ids = i32_value({4}, {2, 0, 2, 1}), table = f32_value({3, 2}, {1.0f, -0.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  EXPECT_TRUE(same_bits(run(Op::embedding, {ids, table}), {5.0f, 6.0f, 1.0f, -0.0f, 5.0f, 6.0f, 3.0f, 4.0f}));
}

TEST(Embedding, an_id_outside_the_table_is_an_error) {
  const HostValue table = f32_value({3, 1}, {1.0f, 2.0f, 3.0f});
  for (const int32_t id : {-1, 3}) {
    EXPECT_THROW(run(Op::embedding, {i32_value({1}, {id}), table}), Error);
    EXPECT_THROW(run(Op::embedding_grad, {i32_value({1}, {id}), f32_value({1, 1}, {1.0f})}, {{"rows", int64_t{3}}}),
                 Error);
  }
}

TEST(EmbeddingGrad, adds_in_panels_of_1024_positions) {
  constexpr size_t kPositions = 2600, kWidth = 3, kTableRows = 7;
  const std::vector<float> dy = uniform_floats(kPositions * kWidth, 100, 1);
  std::vector<int32_t> ids;
  for (size_t t = 0; t < kPositions; ++t) ids.push_back(static_cast<int32_t>(t * t % 5));  // rows 0, 1, 4 only
  std::vector<float> panel[3];
  for (size_t p = 0; p < 3; ++p) panel[p].assign(kTableRows * kWidth, 0.0f);
  for (size_t t = 0; t < kPositions; ++t)
    for (size_t c = 0; c < kWidth; ++c) {
      float& acc = panel[t / 1024][static_cast<size_t>(ids[t]) * kWidth + c];
      acc = acc + dy[t * kWidth + c];
    }
  std::vector<float> want, plain(kTableRows * kWidth, 0.0f);
  for (size_t i = 0; i < plain.size(); ++i) want.push_back((panel[0][i] + panel[1][i]) + panel[2][i]);
  for (size_t t = 0; t < kPositions; ++t)
    for (size_t c = 0; c < kWidth; ++c) plain[static_cast<size_t>(ids[t]) * kWidth + c] += dy[t * kWidth + c];
  const std::vector<float> got =
      run(Op::embedding_grad, {i32_value({kPositions}, ids), f32_value({kPositions, kWidth}, dy)},
          {{"rows", int64_t{kTableRows}}});
  EXPECT_TRUE(same_bits(got, want));
  EXPECT_FALSE(same_bits(got, plain)) << "the panels must show";
}

TEST(EmbeddingGrad, equals_the_column_sum_where_every_id_is_the_same) {
  constexpr size_t kPositions = 1500;
  const std::vector<float> dy = uniform_floats(kPositions * 2, 10, 2);
  const HostValue hdy = f32_value({kPositions, 2}, dy);
  const auto grad = run(Op::embedding_grad, {i32_value({kPositions}, std::vector<int32_t>(kPositions, 0)), hdy},
                        {{"rows", int64_t{1}}});
  EXPECT_TRUE(same_bits(grad, run(Op::column_sum, {hdy}, {{"columns", int64_t{2}}})));
}

TEST(ColumnSum, views_any_shape_as_rows_of_columns) {
  const std::vector<float> x{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
  EXPECT_TRUE(
      same_bits(run(Op::column_sum, {f32_value({2, 2, 2}, x)}, {{"columns", int64_t{4}}}), {6.0f, 8.0f, 10.0f, 12.0f}));
}

TEST(Mean, is_the_row_sum_of_the_whole_tensor_over_its_count) {
  const std::vector<float> x = uniform_floats(5000, 10, 3);
  EXPECT_TRUE(same_bits(run(Op::mean, {f32_value({50, 100}, x)}), {scalar::rowsum(x.data(), 5000) / 5000.0f}));
}

TEST(Mean, of_nothing_is_nan) { EXPECT_TRUE(std::isnan(run(Op::mean, {f32_value({0}, {})})[0])); }

}  // namespace
}  // namespace fp4sim::test
