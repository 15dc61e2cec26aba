// One value to one code and back: exhaustive over codes, and against an independent table search.
#include "reference/scalar/codec.h"

#include <bit>
#include <limits>

#include "reference/contract/error.h"
#include "tests/grid_oracle.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

using scalar::decode_code;
using scalar::encode_value;

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

ElementFormat user(int e, int m, int bias) {
  return {static_cast<int8_t>(1 + e + m),
          static_cast<int8_t>(e),
          static_cast<int8_t>(m),
          static_cast<int16_t>(bias),
          Encoding::sign_magnitude,
          Specials::none,
          true,
          false};
}

struct NamedFormat {
  std::string name;
  ElementFormat format;
};

/// Built-in rows of at most 16 bits and a few user formats at the ends of the ranges.
std::vector<NamedFormat> formats() {
  std::vector<NamedFormat> all;
  for (const ElementFormatRow& row : kElementFormats)
    if (row.format.bits <= 16) all.push_back({row.name, row.format});
  for (const ElementFormat& f : {user(2, 1, -3), user(1, 1, 1), user(5, 0, 150), user(5, 2, -96), user(1, 6, 144)})
    all.push_back({format_name(f), f});
  return all;
}

std::string test_name(const testing::TestParamInfo<NamedFormat>& info) {
  std::string name;
  for (const char c : info.param.name) name += c == '-' ? 'n' : c;
  return name;
}

class EveryFormat : public testing::TestWithParam<NamedFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::ValuesIn(formats()), test_name);

/// Both sides of every grid value and midpoint, ±1 ulp of binary32, and the specials.
std::vector<float> corner_values(const test::GridTable& table) {
  std::vector<double> points = table.values;
  points.push_back(table.continued);
  const size_t grid = points.size();
  for (size_t i = 0; i + 1 < grid; ++i) points.push_back((points[i] + points[i + 1]) / 2);
  std::vector<float> values;
  for (const uint32_t bits : {0u, 1u, 2u, 0x007FFFFFu, 0x00800000u, 0x7F7FFFFFu, 0x7F800000u, 0x7FC00000u, 0x7F800001u})
    values.push_back(from_bits(bits));
  for (const double point : points) {
    const auto nearest = static_cast<float>(point);
    if (!std::isfinite(nearest)) continue;
    for (const float v :
         {nearest, std::nextafterf(nearest, 0), std::nextafterf(nearest, std::numeric_limits<float>::infinity())})
      values.push_back(v);
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

int64_t count_mismatches(const std::vector<float>& values, const ElementFormat& f, const test::GridTable& table) {
  constexpr uint32_t kRandoms[] = {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, 0x12345678u};
  int64_t mismatches = 0;
  for (const RoundingRow& row : kRoundings)
    for (const bool ieee : {false, true}) {
      if (ieee && f.specials == Specials::none) continue;
      const size_t randoms = is_stochastic(row.rounding) ? std::size(kRandoms) : 1;
      for (const float v : values)
        for (size_t r = 0; r < randoms; ++r) {
          const uint32_t expected = test::search_code(v, f, table, row.rounding, ieee, kRandoms[r]);
          const uint32_t actual = encode_value(v, f, row.rounding, ieee, kRandoms[r]);
          if (expected == actual) continue;
          if (++mismatches <= 3)
            ADD_FAILURE() << format_name(f) << " " << row.name << (ieee ? " ieee " : " ") << std::hex << bits_of(v)
                          << " random " << kRandoms[r] << ": expected " << expected << ", got " << actual;
        }
    }
  return mismatches;
}

TEST(Codec, decodes_every_e2m1_code_to_its_value) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(bits_of(decode_code(code, kE2m1)), bits_of(values[code]));
    EXPECT_EQ(bits_of(decode_code(code | 8u, kE2m1)), bits_of(-values[code]));
  }
}

TEST(Codec, derives_the_table_of_section_2_from_the_rows) {
  struct Row {
    const char* name;
    ElementFormat format;
    double max_normal, min_positive;
  };
  const Row rows[] = {{"e2m1", kE2m1, 6, 0.5},
                      {"e1m2", kE1m2, 1.75, 0.25},
                      {"e3m0", kE3m0, 16, 0.25},
                      {"e2m3", kE2m3, 7.5, 0.125},
                      {"e3m2", kE3m2, 28, 0.0625},
                      {"e4m3", kE4m3, 448, 0x1p-9},
                      {"e5m2", kE5m2, 57344, 0x1p-16},
                      {"int8", kInt8, 127 * 0x1p-6, 0x1p-6},
                      {"int4", kInt4, 1.75, 0.25},
                      {"fp16", kFp16, 65504, 0x1p-24},
                      {"fp32", kFp32, 0x1.fffffep127, 0x1p-149}};
  for (const Row& row : rows) {
    EXPECT_EQ(max_normal_value(row.format), row.max_normal) << row.name;
    EXPECT_EQ(min_positive_value(row.format), row.min_positive) << row.name;
    EXPECT_EQ(decode_code(max_normal_code(row.format), row.format), static_cast<float>(row.max_normal)) << row.name;
    EXPECT_EQ(decode_code(1, row.format), static_cast<float>(row.min_positive)) << row.name;
  }
}

TEST_P(EveryFormat, decodes_every_finite_code_to_the_table_s_value) {
  const ElementFormat& f = GetParam().format;
  const test::GridTable table = test::grid_table(f);
  for (uint32_t code = 0; code < table.values.size(); ++code) {
    EXPECT_EQ(static_cast<double>(decode_code(code, f)), table.values[code]);
    EXPECT_EQ(scalar::grid_value(code, f), table.values[code]);
    EXPECT_EQ(scalar::grid_value(-static_cast<int64_t>(code), f), -table.values[code]);
  }
}

TEST_P(EveryFormat, gives_back_every_code_under_every_rounding) {
  const ElementFormat& f = GetParam().format;
  for (uint32_t code = 0; code < (1u << f.bits); ++code) {
    const float value = decode_code(code, f);
    if (!std::isfinite(value) || std::fabs(value) > max_normal_value(f)) continue;
    for (const RoundingRow& row : kRoundings)
      ASSERT_EQ(encode_value(value, f, row.rounding, false, 0), code) << row.name << " code " << code;
  }
}

TEST_P(EveryFormat, matches_a_table_search_around_every_grid_value_and_midpoint) {
  const ElementFormat& f = GetParam().format;
  const test::GridTable table = test::grid_table(f);
  EXPECT_EQ(count_mismatches(corner_values(table), f, table), 0);
}

TEST_P(EveryFormat, matches_a_table_search_on_all_bf16_inputs) {
  const ElementFormat& f = GetParam().format;
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000u; ++high) values.push_back(from_bits(high << 16));
  EXPECT_EQ(count_mismatches(values, f, test::grid_table(f)), 0);
}

TEST_P(EveryFormat, rounds_up_for_exactly_its_share_of_the_256_words_of_sr8) {
  const ElementFormat& f = GetParam().format;
  const auto& values = test::grid_table(f).values;
  for (size_t lo = 0; lo + 1 < values.size(); lo += 1 + values.size() / 11)
    for (const uint32_t part : {0u, 1u, 15u, 16u, 17u, 1000u, 2048u, 2063u, 4079u, 4080u, 4095u}) {  // of 4096
      const double y = values[lo] + (values[lo + 1] - values[lo]) * part / 4096;                     // exact
      for (const double x : {y, -y}) {
        const uint32_t low = encode_value(std::copysign(values[lo], x), f, Rounding::rne, false);
        uint32_t ups = 0;
        for (uint32_t word = 0; word < 256; ++word)
          ups += encode_value(x, f, Rounding::sr8, false, word | word << 24) != low;
        ASSERT_EQ(ups, part / 16) << x;  // floor(256·part/4096)
      }
    }
}

RC_GTEST_PROP(CodecProperty, matches_a_table_search_on_random_bits, (uint32_t bits, uint32_t random)) {
  for (const NamedFormat& named : formats()) {
    if (named.format.bits > 8) continue;
    const test::GridTable table = test::grid_table(named.format);
    for (const RoundingRow& row : kRoundings) {
      const float v = from_bits(bits);
      RC_ASSERT(encode_value(v, named.format, row.rounding, false, random) ==
                test::search_code(v, named.format, table, row.rounding, false, random));
    }
  }
}

TEST(Codec, rounds_a_scaled_number_below_the_smallest_binary32_by_its_exact_value) {
  // 2^-149·2^-127 is no binary32 number, yet it is not zero under the directed rules.
  const double tiny = std::ldexp(1.0, -276);
  EXPECT_EQ(encode_value(tiny, kE2m1, Rounding::rtp, false), 1u);
  EXPECT_EQ(encode_value(-tiny, kE2m1, Rounding::rtn, false), 9u);
  EXPECT_EQ(encode_value(tiny, kE2m1, Rounding::rne, false), 0u);
  EXPECT_EQ(encode_value(-tiny, kE2m1, Rounding::rtp, false), 8u);
  EXPECT_EQ(encode_value(tiny, kE2m1, Rounding::sr32, false, 0), 0u);
}

TEST(Codec, keeps_the_sign_of_a_zero_result_except_in_integers) {
  EXPECT_EQ(encode_value(-0.1, kE2m1, Rounding::rne, false), 8u);
  EXPECT_EQ(encode_value(-0.0, kE2m1, Rounding::rne, false), 8u);
  EXPECT_EQ(encode_value(-0.001, kInt8, Rounding::rne, false), 0u);
  EXPECT_EQ(encode_value(-0.0, kInt4, Rounding::rne, false), 0u);
}

TEST(Codec, decodes_the_unused_lowest_integer_code_and_never_produces_it) {
  EXPECT_EQ(decode_code(0x80, kInt8), -2.0f);
  EXPECT_EQ(decode_code(0x8, kInt4), -2.0f);
  EXPECT_EQ(encode_value(-1e30, kInt8, Rounding::rne, false), 0x81u);
  EXPECT_EQ(encode_value(-2.0, kInt4, Rounding::rtn, false), 0x9u);
}

TEST(Codec, gives_canonical_nans_and_infinities) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(encode_value(-nan, kE4m3, Rounding::rne, false), 0x7Fu);
  EXPECT_EQ(encode_value(-nan, kE5m2, Rounding::rne, false), 0x7Eu);
  EXPECT_EQ(encode_value(nan, kFp16, Rounding::rne, true), 0x7E00u);
  EXPECT_EQ(encode_value(nan, kBf16, Rounding::rne, true), 0x7FC0u);
  EXPECT_EQ(encode_value(nan, kFp32, Rounding::rne, true), 0x7FC00000u);
  EXPECT_EQ(encode_value(-nan, kE2m1, Rounding::rne, false), 0x7u);
  EXPECT_EQ(encode_value(-inf, kE5m2, Rounding::rtz, true), 0xFCu);
  EXPECT_EQ(encode_value(-1e30, kE5m2, Rounding::rtp, true), 0xFBu);
  EXPECT_EQ(encode_value(-1e30, kE5m2, Rounding::rtn, true), 0xFCu);
  EXPECT_EQ(encode_value(-inf, kE4m3, Rounding::rtz, true), 0x7Fu);
  EXPECT_EQ(encode_value(1e30, kE5m2, Rounding::sr32, true, 0), 0x7Bu);
  EXPECT_EQ(bits_of(decode_code(0xFF, kE4m3)), kF32CanonicalNaN);
  EXPECT_EQ(bits_of(decode_code(0xFD, kE5m2)), kF32CanonicalNaN);
  EXPECT_THROW(encode_value(1e30, kE2m1, Rounding::rne, true), Error);
}

TEST(Codec, is_the_identity_on_binary32_bits) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65521) {
    const float v = from_bits(static_cast<uint32_t>(bits));
    const uint32_t code = encode_value(v, kFp32, Rounding::rne, true);
    EXPECT_EQ(code, std::isnan(v) ? kF32CanonicalNaN : bits_of(v));
    EXPECT_EQ(bits_of(decode_code(code, kFp32)), code);
  }
}

TEST(Codec, rounds_up_in_exactly_the_stated_share_of_random_words) {
  // 1.125·2^-14 lies half way between two e5m2 subnormal neighbours: F = 2^31.
  const double half = 1.125 * 0x1p-14;
  EXPECT_EQ(encode_value(half, kE5m2, Rounding::sr32, false, 0x7FFFFFFFu), 5u);
  EXPECT_EQ(encode_value(half, kE5m2, Rounding::sr32, false, 0x80000000u), 4u);
  EXPECT_EQ(encode_value(half, kE5m2, Rounding::sr8, false, 0xFFFFFF7Fu), 5u);
  EXPECT_EQ(encode_value(half, kE5m2, Rounding::sr8, false, 0x80u), 4u);
  // A grid value never moves; 6 − 2^-22 rounds up unless r is one of the last words.
  EXPECT_EQ(encode_value(4.0, kE2m1, Rounding::sr32, false, 0), 6u);
  EXPECT_EQ(encode_value(6.0 - 0x1p-22, kE2m1, Rounding::sr32, false, 0xFFFFFFFFu - 512u), 7u);
  EXPECT_EQ(encode_value(6.0 - 0x1p-22, kE2m1, Rounding::sr32, false, 0xFFFFFFFFu - 511u), 6u);
}

TEST(Packing, four_bit_codes_put_the_even_index_in_the_low_nibble) {
  uint8_t row[2] = {0, 0};
  scalar::store_code(row, 0, 4, 0x2);
  scalar::store_code(row, 1, 4, 0x7);
  scalar::store_code(row, 2, 4, 0xF);
  EXPECT_EQ(row[0], 0x72);
  EXPECT_EQ(row[1], 0x0F);
}

TEST(Packing, six_bit_codes_fill_three_bytes_with_four_codes) {
  uint8_t row[3] = {0xFF, 0xFF, 0xFF};
  const uint32_t codes[] = {0x01, 0x3F, 0x20, 0x15};
  for (int i = 0; i < 4; ++i) scalar::store_code(row, i, 6, codes[i]);
  const uint32_t bits = codes[0] | codes[1] << 6 | codes[2] << 12 | codes[3] << 18;
  EXPECT_EQ(row[0] | row[1] << 8 | row[2] << 16, static_cast<int>(bits));
}

RC_GTEST_PROP(PackingProperty, stored_codes_load_back_at_every_width, (std::vector<uint32_t> values)) {
  for (const int bits : {1, 3, 4, 5, 6, 7, 8, 16, 32}) {
    std::vector<uint8_t> row(values.size() * 4 + 1, 0xA5);
    const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1u;
    for (size_t i = 0; i < values.size(); ++i)
      scalar::store_code(row.data(), static_cast<int64_t>(i), bits, values[i] & mask);
    for (size_t i = 0; i < values.size(); ++i)
      RC_ASSERT(scalar::load_code(row.data(), static_cast<int64_t>(i), bits) == (values[i] & mask));
  }
}

}  // namespace
}  // namespace fp4sim
