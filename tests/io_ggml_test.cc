// ggml's blocks: rows worked out by hand, and an oracle that knows only the conventions: nearest value in exact
// arithmetic with ties to the first code, log2 in extended precision rounded once, UE4M3 by search.
#include <bit>
#include <cmath>
#include <vector>

#include "cli/io/ggml_blocks.h"
#include "cli/io/safetensors.h"
#include "reference/contract/error.h"
#include "reference/contract/host_math.h"
#include "tests/bits.h"

namespace fp4sim::io {
namespace {

const GgmlLayout& kMx = kGgmlLayouts[0];
const GgmlLayout& kNv = kGgmlLayouts[1];

constexpr double kValues[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6};

std::vector<uint8_t> encode(const GgmlLayout& layout, const std::vector<float>& x) {
  std::vector<uint8_t> blocks(x.size() / static_cast<size_t>(layout.block_elements) *
                              static_cast<size_t>(layout.block_bytes));
  ggml_encode(layout, x, blocks);
  return blocks;
}

std::vector<float> decode(const GgmlLayout& layout, const std::vector<uint8_t>& blocks) {
  std::vector<float> x(blocks.size() / static_cast<size_t>(layout.block_bytes) *
                       static_cast<size_t>(layout.block_elements));
  ggml_decode(layout, blocks, x);
  return x;
}

/// A block of zeros but for its first elements.
std::vector<float> block(const GgmlLayout& layout, std::vector<float> first) {
  first.resize(static_cast<size_t>(layout.block_elements), 0.0f);
  return first;
}

/// The first code whose value lies nearest, distances rounded to binary32.
uint32_t nearest(float x, double scale) {
  uint32_t best = 0;
  float least = INFINITY;
  for (uint32_t code = 0; code < 16; ++code) {
    const auto distance =
        static_cast<float>(std::fabs(static_cast<long double>(kValues[code] * scale) - static_cast<long double>(x)));
    if (!(distance < least)) continue;
    least = distance;
    best = code;
  }
  return best;
}

int mx_exponent(float amax) {
  const auto log2 = static_cast<float>(std::log2(static_cast<long double>(amax)));
  return static_cast<int>(std::floor(log2));
}

double ue4m3_value(int code) { return code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10); }
/// The nearest code up to 448, halves up; all from 256 on is 448.
int ue4m3_code(float x) {
  if (x >= 256) return 0x7E;
  int best = 0;
  for (int code = 1; code <= 0x78; ++code)
    if (static_cast<double>(x) >= (ue4m3_value(code - 1) + ue4m3_value(code)) / 2) best = code;
  if (best == 8 && x < 0x1p-6f) best = 7;  // its subnormals end at 7 steps
  return best == 0x78 ? 0x7E : best;
}

TEST(GgmlBlocks, mxfp4_rows_by_hand) {
  // amax 6: exponent 2, e = 127, scale 1. Ties go to the lower magnitude, −0 and −0.2 to code 0.
  std::vector<float> x = block(kMx, {6.0f, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, -0.0f, -0.2f, -0.75f, -5.0f});
  x[16] = -6.0f, x[17] = 0.26f, x[31] = 1.0f;
  const std::vector<uint8_t> blocks = encode(kMx, x);
  const std::vector<uint8_t> expected = {127,  0xF7, 0x10, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
                                         0x00, 0x00, 0x09, 0x0E, 0x00, 0x00, 0x00, 0x20};
  EXPECT_EQ(blocks, expected);
  EXPECT_EQ(decode(kMx, blocks)[0], 6.0f);
  EXPECT_EQ(decode(kMx, blocks)[16], -6.0f);
  EXPECT_EQ(decode(kMx, blocks)[31], 1.0f);
  EXPECT_TRUE(test::same_bits(decode(kMx, blocks)[9], 0.0f)) << "+0";
}

TEST(GgmlBlocks, mxfp4_scale_takes_the_last_floats_below_a_power_of_two_for_that_power) {
  const auto scale_of = [](uint32_t bits) { return encode(kMx, block(kMx, {std::bit_cast<float>(bits)}))[0]; };
  EXPECT_EQ(scale_of(0x40FFFFFF), 128) << "8 − 1 ulp";
  EXPECT_EQ(scale_of(0x40FFFFFE), 127);
  EXPECT_EQ(scale_of(0x407FFFFF), 126) << "4 − 1 ulp: log2 is below 2";
  EXPECT_EQ(scale_of(0x41000000), 128);
  EXPECT_EQ(scale_of(0x7F7FFFFF), 253) << "FLT_MAX counts as 2^128";
  EXPECT_EQ(scale_of(0), 0);
  EXPECT_EQ(scale_of(0x00000001), 0);
  // how many floats below 2^k count as 2^k
  for (const auto& [k, count] : {std::pair{1, 0}, {2, 0}, {3, 1}, {4, 1}, {8, 2}, {16, 5}, {64, 22}, {127, 44}}) {
    const uint32_t power = std::bit_cast<uint32_t>(std::ldexp(1.0f, k));
    EXPECT_EQ(scale_of(power - static_cast<uint32_t>(count)), k - 2 + 127) << k;
    EXPECT_EQ(scale_of(power - static_cast<uint32_t>(count) - 1), k - 3 + 127) << k;
  }
}

TEST(GgmlBlocks, mxfp4_scale_is_the_rounded_logarithm_around_every_power_of_two) {
  for (int k = -124; k <= 127; ++k)
    for (int ulps = -60; ulps <= 2; ++ulps) {
      const float amax =
          std::bit_cast<float>(std::bit_cast<uint32_t>(std::ldexp(1.0f, k)) + static_cast<uint32_t>(ulps));
      ASSERT_EQ(encode(kMx, block(kMx, {amax}))[0], mx_exponent(amax) - 2 + 127) << k << " " << ulps;
    }
}

TEST(GgmlBlocks, nvfp4_rows_by_hand) {
  std::vector<float> x(64, 0.0f);
  x[0] = 6, x[8] = -6, x[1] = 0.75f;  // scale 1 = 0x38
  x[16] = 3, x[24] = 1.25f;           // scale 0.5 = 0x30: codes 7 and 2.5 → 4 (tie to the lower)
  x[48] = 6 * 448, x[63] = -6 * 448;  // scale 448 = 0x7E
  std::vector<uint8_t> expected(36, 0);
  expected[0] = 0x38, expected[1] = 0x30, expected[3] = 0x7E;
  expected[4] = 0xF7, expected[5] = 0x01, expected[12] = 0x47, expected[28] = 0x07, expected[35] = 0xF0;
  EXPECT_EQ(encode(kNv, x), expected);
  EXPECT_EQ(decode(kNv, expected)[24], 1.0f);
  EXPECT_EQ(decode(kNv, expected)[63], -2688.0f);
}

TEST(GgmlBlocks, nvfp4_scale_rounds_half_up_and_stops_at_seven_steps) {
  const auto scale_of = [](float scale) { return encode(kNv, block(kNv, {6 * scale}))[0]; };
  EXPECT_EQ(scale_of(1.0625f), 0x39) << "halfway between 1 and 1.125";
  EXPECT_EQ(scale_of(1.0624f), 0x38);
  EXPECT_EQ(scale_of(0x1.Ep0f + 0x1p-4f), 0x40) << "a carry into the exponent";
  EXPECT_EQ(scale_of(0x1p-10f), 1) << "half a step";
  EXPECT_EQ(scale_of(0x1.Fp-11f), 0);
  EXPECT_EQ(scale_of(7.75f * 0x1p-9f), 7);
  EXPECT_EQ(scale_of(250.0f), 0x7E);
  EXPECT_EQ(scale_of(300.0f), 0x7E);
  EXPECT_EQ(scale_of(1e30f), 0x7E);
}

/// Every element of random blocks, many of them on ties, against the oracle.
TEST(GgmlBlocks, random_blocks_are_those_of_the_oracle) {
  for (const GgmlLayout& layout : kGgmlLayouts) {
    const int group = layout.block_elements / layout.scales, half = group / 2;
    for (uint32_t trial = 0; trial < 4000; ++trial) {
      std::vector<float> x(static_cast<size_t>(layout.block_elements));
      for (size_t i = 0; i < x.size(); ++i) {
        const host_math::Words r = host_math::philox(1, i, trial, 0);
        const double grid = static_cast<double>(r.w[0] % 97) / 8 - 6;  // the midpoints among them
        const double fine = static_cast<double>(r.w[1]) * 0x1p-32 * 12 - 6;
        const int scale = static_cast<int>(trial % 120) - 60;
        x[i] = static_cast<float>(std::ldexp(trial % 2 == 0 ? grid : fine, layout.scales == 1 ? scale : scale / 6));
      }
      const std::vector<uint8_t> blocks = encode(layout, x);
      const std::vector<float> decoded = decode(layout, blocks);
      for (int s = 0; s < layout.scales; ++s) {
        float amax = 0;
        for (int i = s * group; i < (s + 1) * group; ++i) amax = std::max(amax, std::fabs(x[static_cast<size_t>(i)]));
        const bool mx = layout.scales == 1;
        const int byte = mx ? (amax > 0 ? mx_exponent(amax) - 2 + 127 : 0) : ue4m3_code(amax / 6.0f);
        ASSERT_EQ(blocks[static_cast<size_t>(s)], byte) << layout.name << " trial " << trial << " amax " << amax;
        const double scale = mx ? std::ldexp(1.0, byte - 127) : ue4m3_value(byte);
        for (int j = 0; j < group; ++j) {
          const auto i = static_cast<size_t>(s * group + j);
          const uint8_t pair = blocks[static_cast<size_t>(layout.scales + s * half + j % half)];
          const uint32_t code = j < half ? pair & 15u : static_cast<uint32_t>(pair >> 4);
          ASSERT_EQ(code, nearest(x[i], scale)) << layout.name << " trial " << trial << " x " << x[i];
          ASSERT_EQ(ggml_code(layout, blocks.data(), static_cast<int64_t>(i)), code);
          ASSERT_EQ(decoded[i], static_cast<float>(kValues[code] * scale));
        }
      }
    }
  }
}

/// golden/spec/ggml.safetensors: written by ggml's own Python package.
template <class T>
std::vector<T> golden(const char* name) {
  const HostTensor tensor = SafetensorsFile(FP4SIM_GOLDEN_DIR "/spec/ggml.safetensors").read(name);
  const std::span<const T> values = tensor.as<T>();
  return {values.begin(), values.end()};
}

TEST(GgmlBlocks, mxfp4_bytes_are_those_of_ggmls_own_package) {
  const std::vector<uint8_t> blocks = golden<uint8_t>("mxfp4.blocks");
  ASSERT_EQ(blocks.size(), 96u * 17);
  EXPECT_EQ(encode(kMx, golden<float>("mxfp4.x")), blocks);
}

TEST(GgmlBlocks, nvfp4_values_and_scale_codes_are_those_of_ggmls_own_package) {
  EXPECT_EQ(decode(kNv, golden<uint8_t>("nvfp4.blocks")), golden<float>("nvfp4.x"));
  const std::vector<float> numbers = golden<float>("scale.x");
  const std::vector<uint8_t> codes = golden<uint8_t>("scale.code");
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float amax = numbers[i] * 6;
    if (amax / 6 != numbers[i]) continue;
    EXPECT_EQ(encode(kNv, block(kNv, {amax}))[0], codes[i]) << numbers[i];
  }
}

TEST(GgmlBlocks, nan_takes_code_zero_and_infinity_is_an_error_where_ggml_leaves_it_undefined) {
  EXPECT_EQ(encode(kMx, block(kMx, {NAN, 6.0f}))[0], 127);
  EXPECT_EQ(encode(kMx, block(kMx, {NAN, 6.0f}))[1], 0);
  EXPECT_THROW(encode(kMx, block(kMx, {INFINITY})), Error);
  EXPECT_EQ(encode(kNv, block(kNv, {INFINITY, 6.0f}))[0], 0x7E) << "every distance to infinity is infinite: code 0";
  EXPECT_EQ(encode(kNv, block(kNv, {INFINITY, 6.0f}))[4], 0);
}

TEST(GgmlBlocks, foreign_scale_bytes_specs_and_sizes_are_errors) {
  std::vector<uint8_t> mx(17, 0), nv(36, 0);
  mx[0] = 0xFF, nv[3] = 0x80;
  EXPECT_THROW(decode(kMx, mx), Error);
  EXPECT_THROW(decode(kNv, nv), Error);
  nv[3] = 0x7F, nv[35] = 0x77;
  EXPECT_EQ(decode(kNv, nv)[63], 0.0f) << "0x7F decodes to 0";
  EXPECT_EQ(&ggml_layout(parse_quant_spec("e2m1:b32:e8m0/floor:rne")), &kMx);
  EXPECT_EQ(&ggml_layout(parse_quant_spec("nvfp4")), &kNv);
  EXPECT_THROW(ggml_layout(parse_quant_spec("mxfp4:rnz")), UsageError);
  std::vector<float> x(33);
  EXPECT_THROW(ggml_encode(kMx, x, mx), Error);
}

}  // namespace
}  // namespace fp4sim::io
