// Stochastic rounding at the op level on both backends: every one of sr8's 256 words, the distribution under sr32, and
// that a tensor in pieces and on any number of threads has the bits of the whole.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "reference/contract/host_math.h"
#include "reference/contract/step_info.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "reference/simd/backend.h"
#include "tests/grid_oracle.h"
#include "tests/pch.h"
#include "tests/proof_runner.h"

namespace fp4sim {
namespace {

constexpr uint64_t kSeed = 20250302;

StepInfo step_info(uint32_t step = 3) {
  StepInfo info;
  info.seed = kSeed;
  info.step = step;
  return info;
}

struct BackendRow {
  const char* name;
  std::unique_ptr<Backend> (*make)();
};
const BackendRow kBackends[] = {{"scalar", [] { return scalar::make_backend(); }},
                                {"simd", [] { return simd::make_backend(1); }}};

class Stochastic : public testing::TestWithParam<BackendRow> {};
INSTANTIATE_TEST_SUITE_P(Backends, Stochastic, testing::ValuesIn(kBackends),
                         [](const auto& row) { return std::string(row.param.name); });

/// Codes of n copies of x under a stochastic spec.
std::vector<uint32_t> codes_of(const BackendRow& backend, const std::string& spec, float x, int64_t n) {
  const StepInfo step = step_info();
  test::Quantizer quantizer(backend.make(), spec, {n}, "last", &step);
  std::fill_n(quantizer.input(), n, x);
  quantizer.run();
  std::vector<uint32_t> codes;
  for (int64_t i = 0; i < n; ++i) codes.push_back(test::code_at(quantizer.codes(), i, quantizer.bits()));
  return codes;
}

/// Numbers between the e2m1 neighbours 2 and 3 with their distance from 2 in 256ths, and what lies one ulp beside.
struct Fraction {
  float x;
  uint32_t up_words;  // of 256
};
std::vector<Fraction> fractions() {
  std::vector<Fraction> all;
  for (const uint32_t part : {0u, 1u, 2u, 31u, 127u, 128u, 129u, 200u, 255u}) {
    const float x = 2.0f + static_cast<float>(part) / 256.0f;
    all.push_back({x, part});
    all.push_back({std::nextafterf(x, 4.0f), part});                    // floor(256·…) keeps the share
    if (part > 0) all.push_back({std::nextafterf(x, 0.0f), part - 1});  // one ulp less is a whole 256th less
  }
  return all;
}

TEST_P(Stochastic, sr8_goes_up_for_exactly_its_share_of_the_256_words) {
  constexpr int64_t kCount = 8192;  // every word occurs, as the test checks
  for (const Fraction& fraction : fractions()) {
    const std::vector<uint32_t> codes = codes_of(GetParam(), "e2m1:none:sr8", fraction.x, kCount);
    std::array<int, 256> ups{}, downs{};
    for (int64_t i = 0; i < kCount; ++i) {
      const host_math::Words words =
          host_math::philox(kSeed, static_cast<uint64_t>(i) / 4, test::Quantizer::kStream, 3);
      const uint32_t code = codes[static_cast<size_t>(i)];
      ASSERT_TRUE(code == 4 || code == 5) << code;
      ++(code == 5 ? ups : downs)[words.w[i % 4] & 0xFF];
    }
    uint32_t up_words = 0;
    for (size_t word = 0; word < 256; ++word) {
      ASSERT_TRUE((ups[word] == 0) != (downs[word] == 0)) << "word " << word << " goes both ways or does not occur";
      up_words += ups[word] > 0;
    }
    EXPECT_EQ(up_words, fraction.up_words) << fraction.x;
  }
}

TEST(StochasticWords, sr8_counts_all_256_words_in_every_format) {
  for (const ElementFormatRow& row : kElementFormats) {
    if (row.format.bits > 8) continue;
    const test::GridTable table = test::grid_table(row.format);
    for (size_t lo = 0; lo + 1 < table.values.size(); ++lo)
      for (const double part : {0.0, 1.0 / 256, 77.5 / 256, 0.5, 255.0 / 256}) {
        const double x = table.values[lo] + part * (table.values[lo + 1] - table.values[lo]);
        int ups = 0;
        for (uint32_t word = 0; word < 256; ++word)
          ups += scalar::encode_value(x, row.format, Rounding::sr8, false, 0xABCDEF00u | word) == lo + 1;
        ASSERT_EQ(ups, static_cast<int>(std::floor(256 * part))) << row.name << " " << x;
      }
  }
}

// χ² over 64 fractions p: Σ (ups − n·p)²/(n·p·(1 − p)) has mean 64 and standard deviation √128 = 11.3 for independent
// bits. The seed is fixed; the bound is 5 standard deviations.
TEST_P(Stochastic, sr32_goes_up_with_the_probability_of_the_fraction) {
  constexpr int64_t kCount = 1 << 15;
  constexpr int kFractions = 64;
  double chi_square = 0, sum = 0;
  for (int k = 0; k < kFractions; ++k) {
    const double p = (k + 0.5) / kFractions;
    const StepInfo step = step_info(static_cast<uint32_t>(k));
    test::Quantizer quantizer(GetParam().make(), "e2m1:none:sr32", {kCount}, "last", &step);
    std::fill_n(quantizer.input(), kCount, static_cast<float>(2 + p));
    quantizer.run();
    int64_t ups = 0;
    for (int64_t i = 0; i < kCount; ++i) ups += test::code_at(quantizer.codes(), i, 4) == 5;
    const double excess = static_cast<double>(ups) - kCount * p;
    chi_square += excess * excess / (kCount * p * (1 - p));
    sum += excess / std::sqrt(kCount * p * (1 - p));
  }
  std::printf("%s: chi-square %.1f of %d fractions, mean excess %.2f standard deviations\n", GetParam().name,
              chi_square, kFractions, sum / std::sqrt(kFractions));
  EXPECT_LT(chi_square, kFractions + 5 * std::sqrt(2.0 * kFractions));
  EXPECT_GT(chi_square, kFractions - 5 * std::sqrt(2.0 * kFractions)) << "too regular to be random";
  EXPECT_LT(std::fabs(sum) / std::sqrt(kFractions), 5) << "biased";
}

/// Values of both signs over several binades.
float sample(int64_t i) {
  const auto mixed = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ull;
  return std::ldexp(static_cast<float>(static_cast<int64_t>(mixed >> 40) - (1 << 23)),
                    -22 - static_cast<int>(mixed % 6));
}

/// Codes of rows [first, first + rows) of a (…, cols) tensor, packed bytes.
std::vector<uint8_t> rows_of(std::unique_ptr<Backend> backend, const std::string& spec, int64_t first, int64_t rows,
                             int64_t cols) {
  const StepInfo step = step_info();
  const float amax = 4.0f;
  const bool needs_amax = needs_tensor_amax(parse_quant_spec(spec));
  test::Quantizer quantizer(std::move(backend), spec, {rows, cols}, "last", &step, needs_amax ? &amax : nullptr, first);
  for (int64_t i = 0; i < rows * cols; ++i) quantizer.input()[i] = sample(first * cols + i);
  quantizer.run();
  return {quantizer.codes(), quantizer.codes() + rows * code_row_bytes(quantizer.packed().type)};
}

TEST_P(Stochastic, a_tensor_in_pieces_has_the_bits_of_the_whole) {
  constexpr int64_t kRows = 12;
  for (const char* spec : {"e2m1:none:sr32", "e2m1:b32:e8m0/floor:sr32", "e2m1:b16:e4m3/te:sr8", "e2m3:row:fp32:sr8",
                           "e5m2:b32:e8m0/even:sr32"})
    for (const int64_t cols : {int64_t{33}, int64_t{160}}) {
      const std::vector<uint8_t> whole = rows_of(GetParam().make(), spec, 0, kRows, cols);
      std::vector<uint8_t> pieces;
      for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1}, {1, 5}, {6, 6}}) {
        const std::vector<uint8_t> piece = rows_of(GetParam().make(), spec, first, rows, cols);
        pieces.insert(pieces.end(), piece.begin(), piece.end());
      }
      EXPECT_EQ(pieces, whole) << spec << " " << cols;
      EXPECT_NE(rows_of(GetParam().make(), spec, 1, kRows, cols), whole) << "the offset counts";
    }
}

TEST(StochasticThreads, every_level_and_thread_count_gives_scalar_s_bits) {
  for (const char* spec : {"e2m1:none:sr32", "e4m3:none:sr8", "e2m1:b32:e8m0/floor:sr32", "int8:row:fp32:sr8"}) {
    const std::vector<uint8_t> want = rows_of(scalar::make_backend(), spec, 5, 97, 160);
    for (const simd::Level level : simd::available_levels())
      for (const int threads : {1, 7})
        EXPECT_EQ(rows_of(simd::make_backend(level, threads), spec, 5, 97, 160), want)
            << spec << " " << simd::to_string(level) << " " << threads << " threads";
  }
}

}  // namespace
}  // namespace fp4sim
