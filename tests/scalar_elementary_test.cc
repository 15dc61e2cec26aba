// exp64, log64 and tanh64 against MPFR with 120 bits, and their corners.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "reference/contract/host_math.h"
#include "reference/scalar/elementary.h"
#include "tests/bits.h"

namespace fp4sim::scalar {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using MpfrFunction = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);

/// |y − f(x)| in units of y's last place.
double error_in_ulp(MpfrFunction f, double x, double y) {
  mpfr_t real;
  mpfr_init2(real, 120);
  mpfr_set_d(real, x, MPFR_RNDN);
  f(real, real, MPFR_RNDN);
  mpfr_sub_d(real, real, y, MPFR_RNDN);
  const double difference = std::fabs(mpfr_get_d(real, MPFR_RNDN));
  mpfr_clear(real);
  return difference / (std::nextafter(std::fabs(y), kInf) - std::fabs(y));
}

TEST(Elementary, exp64_is_within_1_2_ulp) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double limit = i % 2 == 0 ? 700 : 1;
    const double x = std::uniform_real_distribution<>(-limit, limit)(random);
    worst = std::max(worst, error_in_ulp(mpfr_exp, x, exp64(x)));
  }
  EXPECT_LT(worst, 1.2);
  EXPECT_GT(worst, 0.5) << "an error below half an ulp on every point means that nothing was measured";
}

TEST(Elementary, log64_is_within_1_ulp) {
  std::mt19937_64 random(2);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double near_one = std::uniform_real_distribution<>(0.5, 2)(random);
    const double x = i % 2 == 0 ? near_one : std::ldexp(near_one, std::uniform_int_distribution<>(-1070, 1020)(random));
    worst = std::max(worst, error_in_ulp(mpfr_log, x, log64(x)));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_GT(worst, 0.5);
}

TEST(Elementary, tanh64_is_within_7_ulp) {
  std::mt19937_64 random(5);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = std::ldexp(std::uniform_real_distribution<>(-1, 1)(random), i % 40 - 34);
    worst = std::max(worst, error_in_ulp(mpfr_tanh, x, tanh64(x)));
  }
  EXPECT_LT(worst, 7.0);
  EXPECT_GT(worst, 0.5);
  for (const double x : {0x1.6p-3, std::nextafter(0x1.6p-3, 1.0)})
    EXPECT_LT(error_in_ulp(mpfr_tanh, x, tanh64(x)), 7.0);
}

TEST(Elementary, tanh64_at_its_corners) {
  EXPECT_EQ(std::bit_cast<uint64_t>(tanh64(0.0)), 0u);
  EXPECT_EQ(std::bit_cast<uint64_t>(tanh64(-0.0)), std::bit_cast<uint64_t>(-0.0));
  EXPECT_EQ(tanh64(0x1p-1074), 0x1p-1074);
  EXPECT_EQ(tanh64(-0x1p-1000), -0x1p-1000);
  EXPECT_EQ(tanh64(20.0), 1.0);
  EXPECT_EQ(tanh64(kInf), 1.0);
  EXPECT_EQ(tanh64(-kInf), -1.0);
  EXPECT_TRUE(std::isnan(tanh64(kNan)));
}

TEST(Elementary, exp64_at_its_corners) {
  EXPECT_EQ(exp64(0.0), 1.0);
  EXPECT_EQ(exp64(-0.0), 1.0);
  EXPECT_LT(error_in_ulp(mpfr_exp, 1.0, exp64(1.0)), 1.2);
  EXPECT_EQ(exp64(kInf), kInf);
  EXPECT_EQ(exp64(709.79), kInf);  // overflows in the product, below the threshold
  EXPECT_LT(exp64(709.78), kInf);
  EXPECT_EQ(std::bit_cast<uint64_t>(exp64(-kInf)), 0u);
  EXPECT_EQ(exp64(-745.0), 0x1p-1074);
  EXPECT_EQ(exp64(-745.3), 0.0);
  EXPECT_TRUE(std::isnan(exp64(kNan)));
}

TEST(Elementary, log64_at_its_corners) {
  EXPECT_EQ(std::bit_cast<uint64_t>(log64(1.0)), 0u);
  EXPECT_EQ(log64(2.0), 0x1.62e42fefa39efp-1);
  EXPECT_EQ(log64(0.0), -kInf);
  EXPECT_EQ(log64(-0.0), -kInf);
  EXPECT_EQ(log64(kInf), kInf);
  EXPECT_TRUE(std::isnan(log64(-1.0)));
  EXPECT_TRUE(std::isnan(log64(-kInf)));
  EXPECT_TRUE(std::isnan(log64(kNan)));
  EXPECT_LT(error_in_ulp(mpfr_log, 0x1p-1074, log64(0x1p-1074)), 1.0);
}

TEST(Elementary, separately_written_host_functions_give_the_same_bits) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::uniform_real_distribution<>(-750, 712)(random);
    ASSERT_EQ(exp64(x), host_math::exp64(x)) << x;
    const double y = std::bit_cast<double>(random() >> 1);  // every positive pattern, NaN and subnormals among them
    const double got = log64(y), want = host_math::log64(y);
    ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << y;
  }
}

TEST(Elementary, float_wrappers_round_once) {
  EXPECT_TRUE(test::same_bits(exp_f32(1.0f), 0x1.5bf0a8p+1f));
  EXPECT_TRUE(test::same_bits(exp_f32(-103.0f), 0x1p-149f));  // e^-103 = 1.32·2^-149
  EXPECT_TRUE(test::same_bits(exp_f32(-104.0f), 0.0f));
  EXPECT_TRUE(test::same_bits(exp_f32(88.8f), std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(test::same_bits(log_f32(2.0f), 0x1.62e43p-1f));
}

}  // namespace
}  // namespace fp4sim::scalar
