// exp and log on vectors have the bits of contract/host_math.h on every level.
#include <bit>
#include <limits>
#include <random>

#include "reference/contract/coefficients.h"
#include "reference/contract/host_math.h"
#include "reference/simd/kernels_elementary.h"
#include "tests/bits.h"

namespace fp4sim::test {
namespace {

using HostFunction = double (*)(double);

bool same_double(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// Every special value and every bound of the algorithms with its neighbours.
std::vector<double> corner_doubles() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> corners;
  for (const double c : {0.0,
                         1.0,
                         2.0,
                         0.5,
                         kExpOverflow,
                         -kExpUnderflow,
                         709.782712893384,
                         708.3964185322641,
                         744.4400719213812,
                         745.1332191019411,
                         kSqrtHalf,
                         2 * kSqrtHalf,
                         0x1p-1022,
                         0x1p-1074,
                         0x1p1023,
                         std::numeric_limits<double>::max(),
                         0x0.fffffffffffffp-1022,
                         0x1p-149,
                         0x1p-126,
                         88.72284,
                         103.97208,
                         0.34657359027997264,
                         1e-300,
                         1e300,
                         kInfinity}) {
    for (const double x : {c, std::nextafter(c, 0.0), std::nextafter(c, kInfinity)}) {
      corners.push_back(x);
      corners.push_back(-x);
    }
  }
  corners.push_back(std::numeric_limits<double>::quiet_NaN());
  corners.push_back(std::bit_cast<double>(0xFFF8000000000001ull));
  return corners;
}

/// Arguments of every binade, of the range where exp is finite, and corners: n of them.
std::vector<double> arguments(int64_t n) {
  const std::vector<double> corners = corner_doubles();
  std::mt19937_64 random(20250117);
  std::vector<double> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t bits = random();
    switch (i % 4) {
      case 0: x[i] = std::bit_cast<double>(bits); break;
      case 1: x[i] = static_cast<double>(bits >> 11) * 0x1p-53 * 1500.0 - 750.0; break;
      case 2: x[i] = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))); break;
      default: x[i] = i / 4 < corners.size() ? corners[i / 4] : static_cast<double>(bits >> 11) * 0x1p-53 * 4.0 - 2.0;
    }
  }
  return x;
}

/// One test for every level: the name says which.
class EveryLevel : public testing::TestWithParam<simd::Level> {};
INSTANTIATE_TEST_SUITE_P(SimdElementary, EveryLevel, testing::ValuesIn(simd::available_levels()),
                         [](const auto& row) { return std::string(simd::to_string(row.param)); });

void expect_host_bits(void (*kernel)(const double*, double*, int64_t), HostFunction host) {
  constexpr int64_t kCount = 1 << 21;
  const std::vector<double> x = arguments(kCount);
  std::vector<double> y(x.size());
  kernel(x.data(), y.data(), kCount);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same_double(y[i], host(x[i]))) << "argument " << x[i];
}

/// A walk through all binary32 bit patterns in steps of `stride`.
void expect_rounded_host_bits(void (*kernel)(const float*, float*, int64_t), HostFunction host, uint64_t stride) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (1ull << 32); bits += stride)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  std::vector<float> y(x.size());
  kernel(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(same_bits(y[i], static_cast<float>(host(static_cast<double>(x[i]))))) << "argument " << show_bits(x[i]);
}

TEST_P(EveryLevel, exp64_has_the_bits_of_the_host_function) {
  expect_host_bits(simd::pick_elementary_kernels(GetParam()).exp64, host_math::exp64);
}
TEST_P(EveryLevel, log64_has_the_bits_of_the_host_function) {
  expect_host_bits(simd::pick_elementary_kernels(GetParam()).log64, host_math::log64);
}
TEST_P(EveryLevel, exp_of_a_float_rounds_the_host_function_once) {
  expect_rounded_host_bits(simd::pick_elementary_kernels(GetParam()).exp_f32, host_math::exp64, 2039);
}
TEST_P(EveryLevel, log_of_a_float_rounds_the_host_function_once) {
  expect_rounded_host_bits(simd::pick_elementary_kernels(GetParam()).log_f32, host_math::log64, 2039);
}

}  // namespace
}  // namespace fp4sim::test
