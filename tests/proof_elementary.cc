// exp, log, tanh and sigmoid of all 2^32 binary32 inputs against the correctly rounded result: a double-double with a
// proved bound (double_double.h) decides, MPFR only where that bound leaves two candidates. Slow: minutes a function.
// --gtest_filter=*exp* repeats one; OMP_NUM_THREADS sets the threads.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <optional>
#include <stdexcept>

#include "reference/scalar/elementary.h"
#include "reference/simd/backend.h"
#include "reference/simd/kernels_elementary.h"
#include "tests/bits.h"
#include "tests/double_double.h"
#include "tests/proof_runner.h"

namespace fp4sim {
namespace {

using test::DoubleDouble;
using test::ElementaryOracle;
using test::kChunk;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---- results that need no computation, each with its argument ----

using Known = std::optional<float>;

/// e^89 > 2^128; e^−104 < 2^−150, half the smallest subnormal; for |x| ≤ 2^−25: 1 − 2^−25 < e^x < 1 + 2^−24, the
/// midpoints beside 1.
Known known_exp(float x) {
  if (x > 89) return kInf;
  if (x < -104) return 0.0f;
  if (std::fabs(x) <= 0x1p-25f) return 1.0f;
  return {};
}

Known known_log(float x) {
  if (x == 0) return -kInf;
  if (x < 0) return kNan;
  if (x == kInf) return kInf;
  return {};
}

/// 1 − tanh x = 2/(e^2x + 1) < 2^−25 from x = 13·ln2 = 9.011 on; x − tanh x < x³/3 < x·2^−25 up to 2^−12, which is at
/// most half the distance to x's lower neighbour.
Known known_tanh(float x) {
  if (std::fabs(x) > 9.02f) return std::copysign(1.0f, x);
  if (std::fabs(x) <= 0x1p-12f) return x;
  return {};
}

/// 1 − σ(x) = 1/(e^x + 1) < 2^−25 from x = 25·ln2 = 17.33 on; σ(x) < e^x; |σ(x) − ½| < |x|/4 ≤ 2^−26 up to 2^−24.
Known known_sigmoid(float x) {
  if (x > 17.4f) return 1.0f;
  if (x < -104) return 0.0f;
  if (std::fabs(x) <= 0x1p-24f) return 0.5f;
  return {};
}

// ---- functions under test ----

/// The sigmoid of the activations and estimators (op.def): binary64 inside, one rounding.
float sigmoid_f32(float x) { return static_cast<float>(1.0 / (1.0 + scalar::exp64(-static_cast<double>(x)))); }
float tanh_f32(float x) { return static_cast<float>(scalar::tanh64(static_cast<double>(x))); }

int mpfr_sigmoid(mpfr_t y, const mpfr_t x, mpfr_rnd_t) {
  mpfr_neg(y, x, MPFR_RNDN);
  mpfr_exp(y, y, MPFR_RNDN);
  mpfr_add_ui(y, y, 1, MPFR_RNDN);
  return mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

using SimdKernel = void (*)(const float*, float*, int64_t);

struct FunctionRow {
  const char* name;
  float (*function)(float);
  Known (*known)(float);
  DoubleDouble (ElementaryOracle::*oracle)(double) const;
  test::MpfrFunction exact;
  SimdKernel simd::ElementaryKernels::*simd;  // nullptr: `simd` uses the function inside other kernels only
  int64_t misrounded;                         // the measured count, also in the docstring of the function
};
const FunctionRow kFunctions[] = {
    {"exp", scalar::exp_f32, known_exp, &ElementaryOracle::exp, mpfr_exp, &simd::ElementaryKernels::exp_f32, 0},
    {"log", scalar::log_f32, known_log, &ElementaryOracle::log, mpfr_log, &simd::ElementaryKernels::log_f32, 5},
    {"tanh", tanh_f32, known_tanh, &ElementaryOracle::tanh, mpfr_tanh, nullptr, 0},
    {"sigmoid", sigmoid_f32, known_sigmoid, &ElementaryOracle::sigmoid, mpfr_sigmoid, nullptr, 66},
};

struct Counts {
  int64_t known = 0, decided = 0, mpfr = 0, misrounded = 0, simd_differs = 0;
  float first = 0;  // a misrounded input

  void add(const Counts& other) {
    if (misrounded == 0) first = other.first;
    known += other.known;
    decided += other.decided;
    mpfr += other.mpfr;
    misrounded += other.misrounded;
    simd_differs += other.simd_differs;
  }
};

/// f(x) rounded to binary32 (subnormals too) from 400 bits; what lies within 2^-380 of a midpoint would be an error
/// here and does not occur.
float exact_float(test::MpfrFunction f, float x) {
  mpfr_t y, margin;
  mpfr_inits2(400, y, margin, nullptr);
  mpfr_set_flt(y, x, MPFR_RNDN);
  f(y, y, MPFR_RNDN);
  mpfr_mul_2si(margin, y, -380, MPFR_RNDN);
  mpfr_sub(y, y, margin, MPFR_RNDN);
  const float low = mpfr_get_flt(y, MPFR_RNDN);
  mpfr_add(y, y, margin, MPFR_RNDN);
  mpfr_add(y, y, margin, MPFR_RNDN);
  const float high = mpfr_get_flt(y, MPFR_RNDN);
  mpfr_clears(y, margin, nullptr);
  if (!test::same_bits(low, high))
    throw std::logic_error("400 bits do not decide the rounding of " + test::show_bits(x));
  return low;
}

/// The correctly rounded f(x). The real value lies within 2^-60 of hi + lo, and the two sums below are wrong by less
/// than 2^-52.9 (all relative to hi), so it lies between them; if both round to one number, so does it.
float rounded(const FunctionRow& row, const ElementaryOracle& oracle, float x, Counts& counts) {
  if (std::isnan(x)) return ++counts.known, kNan;
  if (const Known known = row.known(x)) return ++counts.known, *known;
  const DoubleDouble y = (oracle.*row.oracle)(static_cast<double>(x));
  const double margin = std::fabs(y.hi) * 0x1p-51;
  const auto low = static_cast<float>(y.hi + (y.lo - margin)), high = static_cast<float>(y.hi + (y.lo + margin));
  if (std::bit_cast<uint32_t>(low) == std::bit_cast<uint32_t>(high)) return ++counts.decided, low;
  ++counts.mpfr;
  return exact_float(row.exact, x);
}

class Functions : public testing::TestWithParam<FunctionRow> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, Functions, testing::ValuesIn(kFunctions),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(Functions, misround_the_stated_number_of_all_inputs) {
  const FunctionRow& row = GetParam();
  const ElementaryOracle oracle;
  const auto& kernels = simd::pick_elementary_kernels(simd::available_levels().back());
  std::vector<float> x(kChunk), y(kChunk);
  Counts total;
  test::for_all_chunks(row.name, uint64_t{1} << 32, [&](uint64_t first) {
    for (int64_t i = 0; i < kChunk; ++i)
      x[static_cast<size_t>(i)] = std::bit_cast<float>(static_cast<uint32_t>(first + static_cast<uint64_t>(i)));
    if (row.simd != nullptr) (kernels.*row.simd)(x.data(), y.data(), kChunk);
#pragma omp parallel for schedule(dynamic)
    for (int64_t piece = 0; piece < kChunk; piece += 1 << 14) {
      Counts part;
      for (auto i = static_cast<size_t>(piece); i < static_cast<size_t>(piece + (1 << 14)); ++i) {
        const float got = row.function(x[i]);
        if (!test::same_bits(got, rounded(row, oracle, x[i], part)) && part.misrounded++ == 0) part.first = x[i];
        if (row.simd != nullptr && !test::same_bits(got, y[i])) ++part.simd_differs;
      }
#pragma omp critical
      total.add(part);
    }
  });
  std::printf("%s: %lld misrounded of 2^32 inputs (%lld known, %lld by double-double, %lld by MPFR)\n", row.name,
              static_cast<long long>(total.misrounded), static_cast<long long>(total.known),
              static_cast<long long>(total.decided), static_cast<long long>(total.mpfr));
  EXPECT_EQ(total.known + total.decided + total.mpfr, int64_t{1} << 32);
  EXPECT_EQ(total.misrounded, row.misrounded) << "the first at " << test::show_bits(total.first);
  EXPECT_EQ(total.simd_differs, 0);
}

}  // namespace
}  // namespace fp4sim
