// fp4sim error's own arithmetic: the distributions against outside values and tables, the statistics by hand.
#include <algorithm>
#include <cmath>

#include "cli/commands/distributions.h"
#include "cli/commands/error_statistics.h"
#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::cli {
namespace {

using fp4sim::testing::error_of;

std::vector<float> sample(const char* text, int64_t rows, int64_t columns, uint64_t seed) {
  return draw(parse_distribution(text), rows, columns, seed);
}

// Computed outside this project: Philox, FNV-1a and the formulas of distributions.cc in Python's integers and doubles.
TEST(Distributions, first_values_are_golden) {
  EXPECT_EQ(sample("normal", 2, 2, 7),
            (std::vector<float>{-0x1.56aef6p-1f, 0x1.1e02d8p+1f, -0x1.6af434p-2f, -0x1.9d4be4p-1f}));
  EXPECT_EQ(sample("student-t", 2, 2, 7),
            (std::vector<float>{-0x1.721ec4p-2f, -0x1.6381dp-2f, 0x1.b7a2bp-2f, 0x1.433706p+0f}));
  EXPECT_EQ(sample("laplace", 2, 2, 7),
            (std::vector<float>{0x1.913978p+0f, 0x1.c4d42ep-2f, -0x1.3f319ep-4f, -0x1.46ed9ep+0f}));
  EXPECT_EQ(sample("outlier-channels", 2, 2, 7),
            (std::vector<float>{0x1.22bb22p+5f, 0x1.6fcf66p+0f, 0x1.100444p+2f, -0x1.07b55ap+1f}));
  EXPECT_EQ(sample("log-uniform", 2, 2, 7),
            (std::vector<float>{0x1.92fd8cp+1f, 0x1.7e30cp-8f, -0x1.32b95ep+6f, 0x1.c675fp+1f}));
}

TEST(Distributions, quantiles_are_those_of_the_formula) {
  struct Row {
    const char* text;
    double magnitude, probability;  // P(|x| ≤ magnitude), from tables
  };
  constexpr Row kRows[] = {{"normal", 0.67448975, 0.5},
                           {"normal", 1.95996398, 0.95},
                           {"normal(std=4)", 4, 0.68268949},
                           {"student-t", 0.76489233, 0.5},
                           {"student-t", 3.18244631, 0.95},
                           {"student-t(nu=1)", 1, 0.5},
                           {"laplace", 0.69314718, 0.5},
                           {"laplace(scale=2)", 5.99146455, 0.95},
                           {"log-uniform", 1, 0.5},
                           {"log-uniform(-4,0)", 0.5, 0.75},
                           {"outlier-channels(0,20)", 1.95996398, 0.95}};
  constexpr int64_t kCount = 1 << 16;
  for (const Row& row : kRows) {
    const std::vector<float> x = sample(row.text, 64, kCount / 64, 11);
    const auto inside = std::count_if(x.begin(), x.end(), [&](float v) { return std::abs(v) <= row.magnitude; });
    const auto negative = std::count_if(x.begin(), x.end(), [](float v) { return v < 0; });
    // Four standard deviations of a binomial count.
    const double p = row.probability, n = kCount;
    EXPECT_NEAR(static_cast<double>(inside), n * p, 4 * std::sqrt(n * p * (1 - p))) << row.text << " " << row.magnitude;
    EXPECT_NEAR(static_cast<double>(negative), n / 2, 4 * std::sqrt(n / 4)) << row.text;
  }
}

TEST(Distributions, moments_are_those_of_the_formula) {
  struct Row {
    const char* text;
    double variance, kurtosis;
  };
  for (const Row& row :
       {Row{"normal", 1, 3}, Row{"normal(3)", 9, 3}, Row{"laplace(2)", 8, 6}, Row{"student-t(12)", 1.2, 3.75}}) {
    const Moments m = moments(sample(row.text, 128, 1024, 5));
    EXPECT_NEAR(m.mean, 0, 4 * std::sqrt(row.variance / (128 * 1024))) << row.text;
    EXPECT_NEAR(m.rms * m.rms / row.variance, 1, 4 * std::sqrt((row.kurtosis - 1) / (128 * 1024))) << row.text;
    EXPECT_NEAR(m.kurtosis / row.kurtosis, 1, 0.1) << row.text;
  }
}

TEST(Distributions, outlier_channels_multiply_whole_columns) {
  const Distribution d = parse_distribution("outlier-channels(share=0.05,factor=16)");
  EXPECT_EQ(outlier_columns(d, 100, 3), (std::vector<int64_t>{21, 22, 68, 84, 96}));
  EXPECT_EQ(outlier_columns(d, 3, 3).size(), 1u) << "at least one";
  EXPECT_EQ(outlier_columns(parse_distribution("outlier-channels(share=0)"), 100, 3).size(), 0u);
  std::vector<float> expected = sample("outlier-channels(0.05,1)", 7, 100, 3);
  for (size_t row = 0; row < 7; ++row)
    for (const size_t column : {21, 22, 68, 84, 96}) expected[row * 100 + column] *= 16;
  EXPECT_EQ(draw(d, 7, 100, 3), expected);
}

TEST(Distributions, elements_depend_on_seed_and_index_alone) {
  const std::vector<float> few = sample("student-t(5)", 2, 8, 1), many = sample("student-t(5)", 9, 8, 1);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(few, sample("student-t(5)", 2, 8, 2));
  EXPECT_NE(few, sample("student-t(5)", 2, 8, uint64_t{1} << 63 | 1));
}

TEST(Distributions, texts_are_parsed_and_printed) {
  for (const char* text : {"normal(std=1)", "student-t(nu=2.5)", "laplace(scale=0.25)",
                           "outlier-channels(share=0.5,factor=3)", "log-uniform(low=-3,high=-1)"})
    EXPECT_EQ(distribution_text(parse_distribution(text)), text);
  EXPECT_EQ(distribution_text(parse_distribution("outlier-channels(factor=3)")),
            "outlier-channels(share=0.01,factor=3)");
  EXPECT_EQ(distribution_text(parse_distribution("log-uniform(-1,high=2)")), "log-uniform(low=-1,high=2)");
  const std::pair<const char*, const char*> wrong[] = {
      {"", "column 1: expected one of normal, student-t"},
      {"cauchy", "column 1"},
      {"normal(", "column 8: expected a number for std"},
      {"normal(0)", "column 8: std must be from"},
      {"normal(nan)", "column 8"},
      {"normal(1,2)", "column 10: expected `)`: normal has no more"},
      {"normal(1", "column 9: expected `,` or `)`"},
      {"normal(1) ", "column 10: expected the end"},
      {"student-t(nu=1e9)", "column 14: nu must be from 0.5 to 1000"},
      {"outlier-channels(share=0.1,share=0.2)", "share is given twice"},
      {"outlier-channels(share=0.1,3)", "expected a parameter name"},
      {"log-uniform(3,2)", "low must not exceed high"}};
  for (const auto& [text, message] : wrong) {
    const std::string what = error_of<UsageError>([&, t = text] { parse_distribution(t); });
    EXPECT_NE(what.find(message), std::string::npos) << text << ": " << what;
  }
}

TEST(ErrorStatistics, small_case_by_hand) {
  const float x[] = {1, 2, 2, 0}, y[] = {1, 1, 0, 1};  // d = 0, −1, −2, 1
  const ErrorSums s = error_sums(x, y);
  EXPECT_EQ(relative_error(s), std::sqrt(6.0 / 9.0));
  EXPECT_EQ(relative_l1(s), 4.0 / 5.0);
  EXPECT_EQ(mean_relative(s), 0.5);
  EXPECT_EQ(flushed_share(s), 1.0 / 3.0);
  EXPECT_EQ(mean_squared_error(s), 1.5);
  EXPECT_NEAR(snr_db(s), 1.7609125905568124, 1e-15);
  EXPECT_EQ(cosine(s), 3 / (std::sqrt(9.0) * std::sqrt(3.0)));
  EXPECT_EQ(snr_db(error_sums(x, x)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(relative_error(error_sums(x, x)), 0);
  const float plus_minus[] = {-1, 3, -1, 3};  // mean 1, deviations 2
  const Moments m = moments(plus_minus);
  EXPECT_EQ(m.mean, 1);
  EXPECT_EQ(m.rms, std::sqrt(5.0));
  EXPECT_EQ(m.largest, 3);
  EXPECT_EQ(m.kurtosis, 1);
}

}  // namespace
}  // namespace fp4sim::cli
