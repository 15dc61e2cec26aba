// quantize of every simd level against oracles that share no code with a backend: codes by table search, scales by the
// formulas of numerics.md §4 in binary64.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "reference/contract/host_math.h"
#include "reference/simd/backend.h"
#include "tests/grid_oracle.h"
#include "tests/node_runner.h"

namespace fp4sim {
namespace {

using test::HostValue;

constexpr uint64_t kSeed = 0x0123456789ABCDEFu;
constexpr uint32_t kStream = 77;

HostValue quantized(Backend& backend, const std::string& text, const HostValue& x) {
  std::vector<HostValue> inputs{x};
  if (is_stochastic(parse_quant_spec(text).rounding)) {
    StepInfo step;
    step.seed = kSeed;
    step.step = 9;
    inputs.push_back(test::step_value(step));
  }
  return test::run_node(
      backend, Op::quantize, inputs,
      {{"spec", text}, {"axis", std::string("last")}, {"stream", int64_t{kStream}}, {"row_offset", int64_t{0}}})[0];
}

uint32_t random_of(int64_t i) { return host_math::philox(kSeed, static_cast<uint64_t>(i) / 4, kStream, 9).w[i % 4]; }

/// Code i of a row of codes (§4.4), bit by bit.
uint32_t code_at(const HostValue& q, int64_t i) {
  const int bits = q.type.spec.element.bits;
  uint32_t code = 0;
  for (int b = 0; b < bits; ++b) {
    const int64_t at = i * bits + b;
    const auto byte = static_cast<uint32_t>(q.parts[0][static_cast<size_t>(at / 8)]);
    code |= ((byte >> (at % 8)) & 1u) << b;
  }
  return code;
}

/// Codes of one row that differ from the search in the format's table.
int64_t wrong_codes(const HostValue& q, const std::vector<double>& y) {
  const QuantSpec& spec = q.type.spec;
  const test::GridTable table = test::grid_table(spec.element);
  const bool ieee = spec.ieee || spec.element.bits >= 16;
  int64_t wrong = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const uint32_t random = is_stochastic(spec.rounding) ? random_of(index) : 0;
    const uint32_t want = test::search_code(y[i], spec.element, table, spec.rounding, ieee, random);
    wrong += code_at(q, index) != want;
  }
  return wrong;
}

class SimdOracle : public testing::TestWithParam<simd::Level> {
 protected:
  std::unique_ptr<Backend> backend = simd::make_backend(GetParam(), 1);
};

INSTANTIATE_TEST_SUITE_P(levels, SimdOracle, testing::ValuesIn(simd::available_levels()),
                         [](const auto& level) { return simd::to_string(level.param); });

TEST_P(SimdOracle, encodes_all_bf16_inputs_to_the_code_found_by_search) {
  std::vector<float> x;
  for (uint32_t high = 0; high < 65536; ++high) x.push_back(std::bit_cast<float>(high << 16));
  const HostValue input = test::f32_value({65536}, x);
  const std::vector<double> y(x.begin(), x.end());
  int64_t wrong = 0, codes = 0;
  for (const char* rounding : {"rne", "rna", "rnz", "rnu", "rtz", "rtp", "rtn", "sr32"})
    for (const char* format : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "fp16", "bf16", "e4m3+", "e5m2+"}) {
      const std::string name = format;
      const bool ieee = name.back() == '+';
      const std::string spec = name.substr(0, 4) + ":none:" + rounding + (ieee ? "+ieee" : "");
      const int64_t bad = wrong_codes(quantized(*backend, spec, input), y);
      EXPECT_EQ(bad, 0) << spec;
      wrong += bad;
      codes += 65536;
    }
  std::printf("%lld codes, %lld mismatches\n", static_cast<long long>(codes), static_cast<long long>(wrong));
}

TEST_P(SimdOracle, encodes_all_bf16_inputs_of_the_wide_encoder_to_the_code_found_by_search) {
  std::vector<float> x;
  for (uint32_t high = 0; high < 65536; ++high) x.push_back(std::bit_cast<float>(high << 16));
  const HostValue input = test::f32_value({65536}, x);
  const std::vector<double> y(x.begin(), x.end());
  std::vector<double> less(y);
  for (double& v : less) v *= 0.75;
  for (const char* rounding : {"rne", "rna", "rnz", "rnu", "rtz", "rtp", "rtn", "sr32", "sr8"})
    for (const char* format : {"e1m2", "e3m0", "int8", "int4", "e1m1f", "e2m0f", "e5m0f", "e3m1b-5f", "e1m6b144f",
                               "e4m3f", "e5m2b-96f", "e2m1b149f", "fp16"}) {
      const std::string spec = std::string(format) + ":none:" + rounding;
      EXPECT_EQ(wrong_codes(quantized(*backend, spec, input), y), 0) << spec;
      EXPECT_EQ(wrong_codes(quantized(*backend, spec + "+sr34", input), less), 0) << spec << "+sr34";
    }
  for (const char* spec :
       {"e2m1:none:sr8", "e4m3:none:sr8", "e4m3:none:sr8+ieee", "e5m2:none:sr8+ieee", "bf16:none:sr8"})
    EXPECT_EQ(wrong_codes(quantized(*backend, spec, input), y), 0) << spec;
}

/// Midpoints and grid points of a format, −1, 0 and +1 ulp (binary32), both signs.
std::vector<float> grid_corners(const ElementFormat& f) {
  const std::vector<double> values = test::grid_table(f).values;
  std::vector<float> corners;
  for (size_t i = 0; i + 1 < values.size(); ++i)
    for (const double v : {values[i], (values[i] + values[i + 1]) / 2})
      for (const int ulp : {-1, 0, 1}) {
        const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(v)) + static_cast<uint32_t>(ulp);
        if (v == 0 && ulp < 0) continue;
        for (const uint32_t sign : {0u, 0x80000000u}) corners.push_back(std::bit_cast<float>(bits | sign));
      }
  return corners;
}

TEST_P(SimdOracle, encodes_every_midpoint_under_every_e8m0_scale_byte) {
  // Each block of 32: max_normal first, so that floor gives scale 2^s, then 31 corners times 2^s.
  int64_t wrong = 0, codes = 0;
  for (const char* format : {"e2m1", "e2m3", "e3m2"})
    for (const char* rounding : {"rne", "rnz", "rtp", "sr32"}) {
      const ElementFormat f = parse_quant_spec(std::string(format) + ":none").element;
      const std::vector<float> corners = grid_corners(f);
      for (int s = -127; s + emax(f) <= 127; ++s) {
        std::vector<float> x;
        std::vector<double> y;
        for (size_t i = 0; i < corners.size() + 31; ++i) {
          if (x.size() % 32 == 0) x.push_back(std::ldexp(static_cast<float>(max_normal_value(f)), s));
          x.push_back(std::ldexp(corners[i % corners.size()], s));
        }
        x.resize(x.size() / 32 * 32);
        for (const float v : x) y.push_back(std::ldexp(static_cast<double>(v), -s));
        const std::string spec = std::string(format) + ":b32:e8m0/floor:" + rounding;
        const HostValue q = quantized(*backend, spec, test::f32_value({static_cast<int64_t>(x.size())}, x));
        for (const std::byte scale : q.parts[1]) ASSERT_EQ(static_cast<int>(scale), s + 127) << spec;
        wrong += wrong_codes(q, y);
        codes += static_cast<int64_t>(y.size());
      }
    }
  EXPECT_EQ(wrong, 0);
  std::printf("%lld codes, %lld mismatches\n", static_cast<long long>(codes), static_cast<long long>(wrong));
}

/// §4.1 in binary64: the scale byte of a positive finite amax.
int e8m0_byte(float amax, const ElementFormat& f, ScaleRule rule) {
  const double a = amax;
  const int e = std::ilogb(a);
  const double fraction = std::ldexp(a, -e);
  int s = e - emax(f);
  if (rule == ScaleRule::ceil && fraction > 1) ++s;
  if (rule == ScaleRule::even && fraction >= 2 - std::ldexp(1.0, -1 - f.mantissa_bits)) ++s;
  if (rule == ScaleRule::rceil && a > std::ldexp(max_normal_value(f), s)) ++s;
  return std::min(std::max(s, -127), 127) + 127;
}

/// Every power of two, its neighbours, and each half, quarter and eighth of a binade with its neighbours.
std::vector<float> amax_corners() {
  std::vector<float> a;
  for (uint32_t exponent = 0; exponent < 255; ++exponent)
    for (uint32_t eighth = 0; eighth < 16; ++eighth)
      for (const uint32_t ulp : {0xFFFFFFFFu, 0u, 1u}) {
        const uint32_t bits = (exponent << 23) + (eighth << 19) + ulp;
        if (bits > 0 && bits < kF32Inf) a.push_back(std::bit_cast<float>(bits));
      }
  return a;
}

TEST_P(SimdOracle, derives_every_e8m0_scale_from_the_amax) {
  const std::vector<float> corners = amax_corners();
  std::vector<float> x;
  for (const float a : corners) {
    x.push_back(-a);
    x.resize(x.size() + 15, 0.0f);
  }
  const HostValue input = test::f32_value({static_cast<int64_t>(x.size())}, x);
  for (const char* format : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2"})
    for (const char* rule : {"floor", "ceil", "even", "rceil"}) {
      const HostValue q = quantized(*backend, std::string(format) + ":b16:e8m0/" + rule + ":rne", input);
      int64_t wrong = 0;
      for (size_t i = 0; i < corners.size(); ++i)
        wrong += static_cast<int>(q.parts[1][i]) != e8m0_byte(corners[i], q.type.spec.element, q.type.spec.rule);
      EXPECT_EQ(wrong, 0) << format << " " << rule;
    }
}

TEST_P(SimdOracle, marks_a_block_with_a_nan_or_inf_in_any_lane_and_no_other) {
  for (const char* spec : {"mxfp4", "nvfp4", "e4m3:b16:e4m3/one", "e2m1:row:fp32", "e2m1:row:fp32/pow2:rtp"})
    for (int64_t lane = 0; lane < 64; ++lane)
      for (const uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFFFFFFFu, 0x7F800001u}) {
        std::vector<float> x(3 * 64, -1.5f);
        x[static_cast<size_t>(64 + lane)] = std::bit_cast<float>(bits);
        const HostValue q = quantized(*backend, spec, test::f32_value({3, 64}, x));
        const QuantSpec& s = q.type.spec;
        const int64_t block = s.granularity == Granularity::row ? 64 : s.block_size, hit = (64 + lane) / block;
        const bool f32 = s.scale == ScaleFormat::fp32;
        for (int64_t b = 0; b < 3 * 64 / block; ++b) {
          const bool marked = f32 ? std::isnan(test::floats(q, 1)[static_cast<size_t>(b)])
                                  : q.parts[1][static_cast<size_t>(b)] ==
                                        static_cast<std::byte>(s.scale == ScaleFormat::e8m0 ? 0xFF : 0x7F);
          ASSERT_EQ(marked, b == hit) << spec << " lane " << lane;
          for (int64_t i = b * block; i < (b + 1) * block; ++i)
            ASSERT_EQ(code_at(q, i) == 0, b == hit) << spec << " lane " << lane << " element " << i;
        }
      }
}

/// §4.2, te: d, the scale byte and y of one block, every operation one binary32 rounding.
TEST_P(SimdOracle, follows_the_operation_order_of_te) {
  const test::GridTable scale_table = test::grid_table(kE4m3);
  const float largest = std::numeric_limits<float>::max();
  int64_t wrong = 0;
  uint32_t bits = 12345;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<float> x(32);
    for (float& v : x) {
      bits = bits * 1664525u + 1013904223u;
      v = std::bit_cast<float>((bits & 0x80FFFFFFu) | (0x30000000u + ((bits >> 24) % 48 << 24)));
      if (trial % 3 != 0)
        v = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f * (trial % 2 == 0 ? 1e-5f : 7.0f);
    }
    const HostValue q = quantized(*backend, "nvfp4", test::f32_value({32}, x));
    float tensor_amax = 0;
    for (const float v : x) tensor_amax = std::max(tensor_amax, std::fabs(v));
    const float quotient = 2688.0f / tensor_amax, s = std::min(quotient, largest), d = 1.0f / s;
    wrong += test::floats(q, 2)[0] != d;
    std::vector<double> y;
    for (size_t block = 0; block < 2; ++block) {
      float amax = 0;
      for (size_t i = 16 * block; i < 16 * block + 16; ++i) amax = std::max(amax, std::fabs(x[i]));
      const float sixth = 1.0f / 6.0f, factor = s * sixth, wanted = std::min(amax * factor, largest);
      const uint32_t code = test::search_code(wanted, kE4m3, scale_table, Rounding::rne, false, 0);
      wrong += static_cast<uint32_t>(q.parts[1][block]) != code;
      const auto b = static_cast<float>(scale_table.values[code]);
      const float product = b * d, inverse = 1.0f / product, enc = std::min(inverse, largest);
      for (size_t i = 16 * block; i < 16 * block + 16; ++i) {
        const float scaled = b == 0 ? std::copysign(0.0f, x[i]) : x[i] * enc;
        y.push_back(scaled);
      }
    }
    wrong += wrong_codes(q, y);
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace fp4sim
