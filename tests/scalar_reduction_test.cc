// The order of sums against a recursive definition written from numerics.md §7.
#include "reference/scalar/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "tests/bits.h"

namespace fp4sim::scalar {
namespace {

using test::same_bits;

std::vector<float> random_floats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 40));
  return x;
}

/// term(acc, i) folds element i.
using Term = std::function<float(float, size_t)>;

/// Sum of the subtree that holds lanes l, l+h, l+2h, …: a lane is a fold of every 32nd element, a subtree the sum of
/// its two halves.
float lane_tree(size_t lane, size_t h, size_t first, size_t last, const Term& term) {
  if (h < 32) return lane_tree(lane, 2 * h, first, last, term) + lane_tree(lane + h, 2 * h, first, last, term);
  float acc = 0.0f;
  for (size_t i = first + lane; i < last; i += 32) acc = term(acc, i);
  return acc;
}

float recursive_sum(size_t n, const Term& term) {
  if (n <= 4096) return lane_tree(0, 1, 0, n, term);
  std::vector<float> chunks;
  for (size_t first = 0; first < n; first += 4096)
    chunks.push_back(lane_tree(0, 1, first, std::min(n, first + 4096), term));
  return recursive_sum(chunks.size(), [&chunks](float acc, size_t i) { return acc + chunks[i]; });
}

class RowLengths : public testing::TestWithParam<size_t> {};

TEST_P(RowLengths, rowsum_follows_the_recursive_definition) {
  const std::vector<float> x = random_floats(GetParam(), 7);
  const auto n = static_cast<int64_t>(x.size());
  EXPECT_TRUE(same_bits(rowsum(x.data(), n), recursive_sum(x.size(), [&](float acc, size_t i) { return acc + x[i]; })));
}

TEST_P(RowLengths, rowsum_of_products_uses_fma_in_the_lanes) {
  const std::vector<float> a = random_floats(GetParam(), 8), b = random_floats(GetParam(), 9);
  const float want = recursive_sum(a.size(), [&](float acc, size_t i) { return std::fma(a[i], b[i], acc); });
  EXPECT_TRUE(same_bits(rowsum_products(a.data(), b.data(), static_cast<int64_t>(a.size())), want));
}

INSTANTIATE_TEST_SUITE_P(Lengths, RowLengths,
                         testing::Values(0, 1, 2, 16, 31, 32, 33, 63, 64, 100, 768, 4095, 4096, 4097, 8192, 10000,
                                         131072, 131073, 140001),
                         [](const auto& row) { return std::to_string(row.param); });

TEST(Reduction, the_order_shows_in_the_bits) {
  const std::vector<float> x = random_floats(1000, 10);
  float plain = 0.0f;
  for (const float v : x) plain = plain + v;
  EXPECT_FALSE(same_bits(rowsum(x.data(), 1000), plain));
}

TEST(Reduction, lane_pairs_are_sixteen_apart) {
  // Lanes 0 and 16 cancel before lane 1 is added; another pairing would lose the 1.
  std::vector<float> x(32, 0.0f);
  x[0] = 0x1p30f, x[16] = -0x1p30f, x[1] = 1.0f;
  EXPECT_EQ(rowsum(x.data(), 32), 1.0f);
  std::swap(x[16], x[8]);  // lane 8 meets lane 0 after 16, still before lane 1
  EXPECT_EQ(rowsum(x.data(), 32), 1.0f);
  std::swap(x[8], x[3]);  // lane 3 meets lane 0 last, after lane 1 has joined lane 3
  EXPECT_EQ(rowsum(x.data(), 32), 0.0f);
}

TEST(Reduction, empty_sums_are_plus_zero) {
  EXPECT_TRUE(same_bits(rowsum(nullptr, 0), 0.0f));
  EXPECT_TRUE(same_bits(rowsum_products(nullptr, nullptr, 0), 0.0f));
  float out = 5.0f;
  column_sum(nullptr, 0, 1, &out);
  EXPECT_TRUE(same_bits(out, 0.0f));
}

TEST(Reduction, sums_of_minus_zeros_are_plus_zero) {
  const std::vector<float> x(40, -0.0f);
  EXPECT_TRUE(same_bits(rowsum(x.data(), 40), 0.0f));
}

TEST(Reduction, column_sums_are_cut_into_panels_of_1024_rows) {
  constexpr size_t kRows = 2500, kColumns = 3;
  const std::vector<float> a = random_floats(kRows * kColumns, 11), b = random_floats(kRows * kColumns, 12);
  std::vector<float> sums(kColumns), products(kColumns), want_sums(kColumns), want_products(kColumns);
  for (size_t c = 0; c < kColumns; ++c) {
    float panel[3] = {}, product_panel[3] = {};
    for (size_t r = 0; r < kRows; ++r) {
      panel[r / 1024] = panel[r / 1024] + a[r * kColumns + c];
      product_panel[r / 1024] = std::fma(a[r * kColumns + c], b[r * kColumns + c], product_panel[r / 1024]);
    }
    want_sums[c] = (panel[0] + panel[1]) + panel[2];
    want_products[c] = (product_panel[0] + product_panel[1]) + product_panel[2];
  }
  column_sum(a.data(), kRows, kColumns, sums.data());
  column_sum_products(a.data(), b.data(), kRows, kColumns, products.data());
  EXPECT_TRUE(same_bits(sums, want_sums));
  EXPECT_TRUE(same_bits(products, want_products));
}

TEST(Reduction, nan_wins_a_maximum_and_plus_zero_beats_minus_zero) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float other : {0.0f, -1.0f, inf, -inf, nan}) {
    EXPECT_TRUE(std::isnan(max_of(nan, other)));
    EXPECT_TRUE(std::isnan(max_of(other, nan)));
  }
  EXPECT_TRUE(same_bits(max_of(0.0f, -0.0f), 0.0f));
  EXPECT_TRUE(same_bits(max_of(-0.0f, 0.0f), 0.0f));
  EXPECT_TRUE(same_bits(max_of(-0.0f, -0.0f), -0.0f));
  const std::vector<float> x{-3.0f, 7.0f, 2.0f};
  EXPECT_EQ(max_of(x.data(), 3), 7.0f);
}

}  // namespace
}  // namespace fp4sim::scalar
