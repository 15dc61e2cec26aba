// Exact integer dots and their single rounding, against __float128 (113 bits) and the hardware's conversions.
#include "reference/scalar/dot.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <random>

#include "tests/bits.h"

namespace fp4sim::scalar {
namespace {

using test::same_bits;
using test::show_bits;

/// integer·2^exponent rounded by the compiler's conversion from binary128, in which the product is exact.
float by_binary128(int64_t integer, int exponent) {
  __float128 value = integer;
  for (int e = exponent; e > 0; --e) value *= 2;
  for (int e = exponent; e < 0; ++e) value /= 2;
  return static_cast<float>(value);
}

TEST(RoundToF32, agrees_with_binary128_around_every_tie_and_limit) {
  const int64_t cores[] = {1, 2, 3, 0x800000, 0xFFFFFF, 0x1000000, 0x1000001, 0x1FFFFFF, 0x3FFFFFF, int64_t{1} << 52};
  for (const int64_t core : cores)
    for (int64_t shift = 0; shift < 10; ++shift)
      for (int64_t delta = -3; delta <= 3; ++delta)
        for (int exponent = -230; exponent <= 135; ++exponent) {
          const int64_t integer = (core << shift) + delta;
          ASSERT_TRUE(same_bits(round_to_f32(integer, exponent), by_binary128(integer, exponent)))
              << integer << "·2^" << exponent << ": " << show_bits(round_to_f32(integer, exponent));
          ASSERT_TRUE(same_bits(round_to_f32(-integer, exponent), by_binary128(-integer, exponent)) || integer == 0);
        }
}

RC_GTEST_PROP(RoundToF32, agrees_with_binary128_on_random_integers, (int64_t integer)) {
  const int64_t shifted = integer >> *rc::gen::inRange(0, 63);
  const int exponent = *rc::gen::inRange(-300, 140);
  RC_ASSERT(shifted == 0 || same_bits(round_to_f32(shifted, exponent), by_binary128(shifted, exponent)));
}

TEST(RoundToF32, limits) {
  EXPECT_TRUE(same_bits(round_to_f32(0, 100), 0.0f));
  EXPECT_TRUE(same_bits(round_to_f32(1, -149), 0x1p-149f));
  EXPECT_TRUE(same_bits(round_to_f32(1, -150), 0.0f));  // tie to even
  EXPECT_TRUE(same_bits(round_to_f32(-1, -150), -0.0f));
  EXPECT_TRUE(same_bits(round_to_f32(3, -151), 0x1p-149f));
  EXPECT_TRUE(same_bits(round_to_f32(INT64_MIN, -213), -0.0f));  // −2^-150
  EXPECT_TRUE(same_bits(round_to_f32(0xFFFFFF, 104), std::numeric_limits<float>::max()));
  EXPECT_TRUE(same_bits(round_to_f32(0x1FFFFFF, 103), std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(same_bits(round_to_f32(-1, 128), -std::numeric_limits<float>::infinity()));
}

TEST(ExactDot, is_the_integer_sum_rounded_once) {
  const std::vector<int64_t> a{3, -5, int64_t{1} << 30, 0}, b{7, 11, 1, 9};
  EXPECT_EQ(exact_dot(a.data(), b.data(), 4, -2), by_binary128(21 - 55 + (int64_t{1} << 30), -2));
  EXPECT_TRUE(same_bits(exact_dot(a.data(), b.data(), 0, 5), 0.0f));
}

TEST(ExactDot, a_cancelled_sum_is_plus_zero) {
  const std::vector<int64_t> a{-2, 2}, b{3, 3};
  EXPECT_TRUE(same_bits(exact_dot(a.data(), b.data(), 2, 0), 0.0f));
}

TEST(ExactDot, a_nonfinite_element_makes_it_nan_even_against_zero) {
  const std::vector<int64_t> a{kNotFinite, 1}, zero{0, 1};
  EXPECT_TRUE(std::isnan(exact_dot(a.data(), zero.data(), 2, 0)));
  EXPECT_TRUE(std::isnan(exact_dot(zero.data(), a.data(), 2, 0)));
}

TEST(Fp32Dot, is_one_fma_chain_a_panel_added_in_ascending_order) {
  std::mt19937 random(4);
  for (const size_t n : {0, 1, 5, 1023, 1024, 1025, 2048, 3000}) {
    std::vector<float> a(n), b(n);
    for (float& v : a) v = static_cast<float>(random()) * 0x1p-20f - 2048.0f;
    for (float& v : b) v = static_cast<float>(random()) * 0x1p-20f - 2048.0f;
    float panel[3] = {};
    for (size_t k = 0; k < n; ++k) panel[k / 1024] = std::fma(a[k], b[k], panel[k / 1024]);
    EXPECT_TRUE(same_bits(fp32_dot(a.data(), b.data(), static_cast<int64_t>(n)), (panel[0] + panel[1]) + panel[2]))
        << n;
  }
}

}  // namespace
}  // namespace fp4sim::scalar
