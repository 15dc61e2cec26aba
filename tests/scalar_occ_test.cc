// OCC and the Hadamard rotation (numerics.md §6) as nodes.
#include <algorithm>
#include <bit>
#include <limits>

#include "reference/contract/philox.h"
#include "reference/contract/reduction_order.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/random_bits.h"
#include "tests/bits.h"
#include "tests/node_runner.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Split {
  std::vector<float> clamped;
  test::HostValue csr;
  std::vector<int64_t> row_ptr() const { return test::elements<int64_t>(csr, 0); }
  std::vector<int32_t> columns() const { return used(test::elements<int32_t>(csr, 1)); }
  template <class T>
  std::vector<T> values() const {
    return used(test::elements<T>(csr, 2));
  }
  /// The first entries of a component: those in use.
  template <class T>
  std::vector<T> used(std::vector<T> all) const {
    all.resize(static_cast<size_t>(row_ptr().back()));
    return all;
  }
};

Split split(const Shape& shape, const std::vector<float>& x, const std::string& occ, Axis axis = Axis::last) {
  const auto backend = scalar::make_backend();
  const auto out = test::run_node(*backend, Op::occ_split, {test::f32_value(shape, x)},
                                  {{"spec", "mxfp4+" + occ}, {"axis", to_string(axis)}});
  return {test::floats(out[0]), out[1]};
}

std::vector<float> compensated(const std::vector<float>& x, const Split& s) {
  const auto backend = scalar::make_backend();
  return test::floats(test::run_node(*backend, Op::add_residual, {test::f32_value(s.csr.type.shape, x), s.csr})[0]);
}

/// 0 … n−1 in a scrambled order; n + 1 is prime for the sizes used.
std::vector<float> scrambled(int64_t n) {
  std::vector<float> x;
  for (int64_t i = 1; i <= n; ++i) x.push_back(static_cast<float>(i * 3 % (n + 1) - 1));
  return x;
}

TEST(Quantiles, of_ninety_percent_of_a_hundred_values_are_indices_9_and_90) {
  const QuantileIndices q = quantile_indices(0.9, 100);
  EXPECT_EQ(q.lower, 9);
  EXPECT_EQ(q.upper, 90);
  EXPECT_EQ(quantile_indices(0.99, 4096).lower, 40);
  EXPECT_EQ(quantile_indices(0.99, 4096).upper, 4055);
  EXPECT_EQ(quantile_indices(1.0, 7).lower, 0);
  EXPECT_EQ(quantile_indices(1.0, 7).upper, 6);
}

TEST(OccSplit, clamps_between_the_quantiles_and_stores_the_rest) {
  const std::vector<float> x = scrambled(100);
  const Split s = split({100}, x, "occ(0.9,fp32)");
  EXPECT_EQ(*std::min_element(s.clamped.begin(), s.clamped.end()), 9.0f);
  EXPECT_EQ(*std::max_element(s.clamped.begin(), s.clamped.end()), 90.0f);
  EXPECT_EQ(s.row_ptr(), (std::vector<int64_t>{0, 18}));
  EXPECT_EQ(csr_capacity(s.csr.type), 9 + 9);
  const std::vector<int32_t> columns = s.columns();
  EXPECT_TRUE(std::is_sorted(columns.begin(), columns.end()));
  for (size_t e = 0; e < columns.size(); ++e) {
    const auto i = static_cast<size_t>(columns[e]);
    EXPECT_EQ(s.values<float>()[e], x[i] - s.clamped[i]);
    EXPECT_NE(s.values<float>()[e], 0.0f);
  }
  EXPECT_EQ(compensated(s.clamped, s), x);
}

TEST(OccSplit, fills_its_capacity_for_distinct_values_at_every_alpha) {
  for (const int64_t n : {4, 10, 36, 100, 256})
    for (const double alpha : {0.5, 0.75, 0.9, 0.97, 0.99, 0.999, 1.0}) {
      const Split s = split({n}, scrambled(n), "occ(" + std::to_string(alpha) + ",bf16)");
      const QuantileIndices q = quantile_indices(std::stod(std::to_string(alpha)), n);
      EXPECT_EQ(s.row_ptr().back(), q.lower + std::max<int64_t>(n - 1 - q.upper, 0)) << n << " " << alpha;
      EXPECT_LE(s.row_ptr().back(), csr_capacity(s.csr.type));
    }
}

TEST(OccSplit, leaves_a_row_with_nan_or_infinity_whole) {
  std::vector<float> x = scrambled(100);
  const std::vector<float> second = x;
  x.insert(x.end(), second.begin(), second.end());
  x[17] = kNan;
  x[18] = -kInf;
  const Split s = split({2, 100}, x, "occ(0.9,fp32)");
  EXPECT_EQ(s.row_ptr(), (std::vector<int64_t>{0, 0, 18}));
  EXPECT_TRUE(test::same_bits({s.clamped.begin(), s.clamped.begin() + 100}, {x.begin(), x.begin() + 100}));
  const Split whole = split({2, 100}, x, "occ(0.9,fp32,tensor)");
  EXPECT_TRUE(test::same_bits(whole.clamped, x));
  EXPECT_EQ(whole.row_ptr().back(), 0);
}

TEST(OccSplit, takes_the_quantiles_of_the_whole_tensor_where_asked) {
  std::vector<float> x;
  for (int i = 0; i < 200; ++i) x.push_back(static_cast<float>(i));
  const Split s = split({2, 100}, x, "occ(0.9,fp32,tensor)");
  const QuantileIndices q = quantile_indices(0.9, 200);
  EXPECT_EQ(s.clamped[0], static_cast<float>(q.lower));
  EXPECT_EQ(s.clamped[199], static_cast<float>(q.upper));
  EXPECT_EQ(s.row_ptr(), (std::vector<int64_t>{0, q.lower, q.lower + 199 - q.upper}));
}

TEST(OccSplit, sorts_negative_zero_before_positive_zero) {
  // Ten zeros: the quantile indices 1 and 8 of alpha 0.8 fall on −0 and +0; nothing is clamped, every sign stays.
  const std::vector<float> x{0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f};
  const Split s = split({10}, x, "occ(0.8,fp32)");
  EXPECT_TRUE(test::same_bits(s.clamped, x));
  EXPECT_EQ(s.row_ptr().back(), 0);
  // One value below: the lower quantile (index 1) is the −0, not the first zero met.
  const std::vector<float> low{0.0f, 0.0f, -5.0f, -0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  EXPECT_TRUE(test::same_bits(split({10}, low, "occ(0.8,fp32)").clamped[2], -0.0f));
}

TEST(OccSplit, along_the_first_axis_splits_columns) {
  constexpr int64_t kRows = 100, kCols = 3;
  std::vector<float> x(kRows * kCols), t(kRows * kCols);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c)
      t[static_cast<size_t>(c * kRows + r)] = x[static_cast<size_t>(r * kCols + c)] =
          static_cast<float>((r * 37 + c * 11) % 101) - 50.0f;
  const Split first = split({kRows, kCols}, x, "occ(0.9,e4m3)", Axis::first);
  const Split last = split({kCols, kRows}, t, "occ(0.9,e4m3)", Axis::last);
  EXPECT_EQ(first.row_ptr(), last.row_ptr());
  EXPECT_EQ(first.columns(), last.columns());
  EXPECT_EQ(first.values<uint8_t>(), last.values<uint8_t>());
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c)
      EXPECT_EQ(first.clamped[static_cast<size_t>(r * kCols + c)], last.clamped[static_cast<size_t>(c * kRows + r)]);
}

TEST(OccSplit, e4m3_residuals_share_the_smallest_power_of_two_that_holds_them) {
  std::vector<float> x(100, 1.0f);
  x[10] = 901.0f;  // ΔY = 900 > 448: scale 2^2 = 4 → 225 → 224 (tie-free neighbour)
  x[20] = -7.0f;   // ΔY = −8 → −2
  const Split s = split({100}, x, "occ(0.9,e4m3)");
  EXPECT_EQ(test::elements<uint8_t>(s.csr, 3)[0], 127 + 2);
  EXPECT_EQ(s.columns(), (std::vector<int32_t>{10, 20}));
  const std::vector<float> back = compensated(s.clamped, s);
  EXPECT_EQ(back[10], 1.0f + 896.0f);
  EXPECT_EQ(back[20], -7.0f);
}

TEST(OccSplit, an_infinite_residual_marks_the_e4m3_scale_with_nan) {
  std::vector<float> x(100, -3e38f);
  x[10] = 3e38f;
  const Split e4m3 = split({100}, x, "occ(0.9,e4m3)");
  EXPECT_EQ(test::elements<uint8_t>(e4m3.csr, 3)[0], 0xFF);
  EXPECT_EQ(e4m3.values<uint8_t>(), (std::vector<uint8_t>{0}));
  EXPECT_TRUE(std::isnan(compensated(e4m3.clamped, e4m3)[10]));
  EXPECT_EQ(split({100}, x, "occ(0.9,fp32)").values<float>(), (std::vector<float>{kInf}));
  EXPECT_EQ(split({100}, x, "occ(0.9,bf16)").values<uint16_t>(), (std::vector<uint16_t>{0x7F80}));
}

TEST(OccSplit, without_residuals_has_e4m3_scale_code_zero_or_no_entries) {
  const std::vector<float> same(100, 2.0f);
  EXPECT_EQ(test::elements<uint8_t>(split({100}, same, "occ(0.9,e4m3)").csr, 3)[0], 0);
  const Split clamp_only = split({100}, scrambled(100), "occ(0.9,none)");
  EXPECT_EQ(clamp_only.row_ptr(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(*std::max_element(clamp_only.clamped.begin(), clamp_only.clamped.end()), 90.0f);
}

RC_GTEST_PROP(OccProperty, fp32_residuals_restore_what_was_split_off, (std::vector<int16_t> raw)) {
  RC_PRE(!raw.empty());
  std::vector<float> x;
  for (const int16_t v : raw) x.push_back(static_cast<float>(v));  // differences are exact
  const auto alpha = *rc::gen::element<std::string>("0.5", "0.8", "0.9", "0.99", "1");
  const Split s = split({static_cast<int64_t>(x.size())}, x, "occ(" + alpha + ",fp32)");
  RC_ASSERT(compensated(s.clamped, s) == x);
}

// ---- Hadamard ----

std::vector<float> rotate(const Shape& shape, const std::vector<float>& x, int64_t n, const std::string& signs,
                          bool inverse, Axis axis = Axis::last) {
  const auto backend = scalar::make_backend();
  std::vector<test::HostValue> inputs{test::f32_value(shape, x)};
  Attrs attrs{{"n", n}, {"signs", signs}, {"axis", to_string(axis)}, {"inverse", int64_t{inverse}}};
  if (signs == "philox") {
    inputs.push_back(test::step_value({.seed = 99, .step = 3}));
    attrs.set("stream", int64_t{stream_of("layers.0.q/had")});
  }
  return test::floats(test::run_node(*backend, Op::hadamard, inputs, attrs)[0]);
}

std::vector<float> small_integers(int64_t count) {
  std::vector<float> x;
  for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>(i * 7919 % 23 - 11));
  return x;
}

TEST(Hadamard, is_the_sylvester_matrix_times_the_signs) {
  const char* fixed = "+++-+------+-+--";
  for (const int64_t n : {16, 32, 64, 128})
    for (const std::string signs : {"none", "fixed16"}) {
      const std::vector<float> x = small_integers(n), y = rotate({n}, x, n, signs, false);
      const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(n)));
      for (int64_t i = 0; i < n; ++i) {
        float sum = 0;  // exact: small integers
        for (int64_t j = 0; j < n; ++j) {
          const bool negative =
              (std::popcount(static_cast<uint64_t>(i & j)) + (signs == "fixed16" && fixed[j % 16] == '-')) % 2;
          sum += negative ? -x[static_cast<size_t>(j)] : x[static_cast<size_t>(j)];
        }
        EXPECT_EQ(y[static_cast<size_t>(i)], sum * factor) << n << " " << signs << " " << i;
      }
    }
}

TEST(Hadamard, then_its_inverse_is_the_identity) {
  for (const int64_t n : {16, 32, 64, 128})
    for (const std::string signs : {"none", "fixed16", "philox"}) {
      const std::vector<float> x = small_integers(2 * n);
      const std::vector<float> back = rotate({2, n}, rotate({2, n}, x, n, signs, false), n, signs, true);
      for (size_t i = 0; i < x.size(); ++i) {
        if (n == 16 || n == 64) {
          EXPECT_EQ(back[i], x[i]);  // 1/sqrt(n) is a power of two: every step is exact
        } else {
          EXPECT_NEAR(back[i], x[i], 1e-5);
        }
      }
    }
}

TEST(Hadamard, inverse_is_the_transpose_so_it_is_the_gradient) {
  for (const int64_t n : {16, 64})
    for (const std::string signs : {"none", "fixed16", "philox"}) {
      const std::vector<float> x = small_integers(n);
      std::vector<float> g = small_integers(n + 5);
      g.erase(g.begin(), g.begin() + 5);
      const std::vector<float> y = rotate({n}, x, n, signs, false), dx = rotate({n}, g, n, signs, true);
      double forward = 0, backward = 0;  // exact sums
      for (size_t i = 0; i < x.size(); ++i)
        forward += static_cast<double>(y[i]) * g[i], backward += static_cast<double>(x[i]) * dx[i];
      EXPECT_EQ(forward, backward) << n << " " << signs;
    }
}

TEST(Hadamard, takes_philox_signs_from_the_words_of_counter_zero) {
  const auto words = scalar::philox_words(99, 0, stream_of("layers.0.q/had"), 3);
  std::vector<float> x = small_integers(128);
  const std::vector<float> signed_rotation = rotate({128}, x, 128, "philox", false);
  for (size_t j = 0; j < 128; ++j)
    if ((words[j / 32] >> (j % 32) & 1) != 0) x[j] = -x[j];
  EXPECT_TRUE(test::same_bits(signed_rotation, rotate({128}, x, 128, "none", false)));
}

TEST(Hadamard, along_the_first_axis_rotates_columns_block_by_block) {
  constexpr int64_t kRows = 48, kCols = 5;
  const std::vector<float> x = small_integers(kRows * kCols);
  std::vector<float> t(x.size());
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c) t[static_cast<size_t>(c * kRows + r)] = x[static_cast<size_t>(r * kCols + c)];
  const std::vector<float> first = rotate({kRows, kCols}, x, 16, "fixed16", false, Axis::first);
  const std::vector<float> last = rotate({kCols, kRows}, t, 16, "fixed16", false);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c)
      EXPECT_EQ(first[static_cast<size_t>(r * kCols + c)], last[static_cast<size_t>(c * kRows + r)]);
}

}  // namespace
}  // namespace fp4sim
