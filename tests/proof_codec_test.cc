// Every element format × rounding × policy on all 65,536 bf16 inputs and around every border of the grid; all codes;
// all scale bytes: `scalar` and `simd` at its best level against searches in tables written from the definitions.
#include <bit>
#include <cmath>
#include <random>

#include "reference/contract/host_math.h"
#include "reference/contract/step_info.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "reference/simd/backend.h"
#include "tests/bits.h"
#include "tests/grid_oracle.h"
#include "tests/node_runner.h"
#include "tests/pch.h"
#include "tests/proof_cuda.h"
#include "tests/proof_runner.h"

namespace fp4sim {
namespace {

using test::HostValue;
using test::Verdict;

constexpr uint64_t kSeed = 0x0123456789ABCDEFu;
constexpr uint32_t kStep = 9;

struct NamedFormat {
  std::string name;  // as the spec spells it
  ElementFormat format;
};

ElementFormat format_of(const std::string& name) { return parse_quant_spec(name + ":none").element; }

std::vector<NamedFormat> built_in_formats() {
  std::vector<NamedFormat> all;
  for (const ElementFormatRow& row : kElementFormats)
    if (!is_identity_f32(row.format)) all.push_back({row.name, row.format});
  return all;
}

/// Every e{E}m{M}f with its default bias, and the ends of the bias range.
std::vector<NamedFormat> user_formats() {
  std::vector<NamedFormat> all;
  for (int e = 1; e <= 5; ++e)
    for (int m = 0; m <= 6; ++m) {
      if (1 + e + m < 3 || 1 + e + m > 8) continue;
      const std::string start = "e" + std::to_string(e) + "m" + std::to_string(m);
      all.push_back({start + "f", format_of(start + "f")});
      const BiasRange range = user_bias_range(e, m);
      if (e + m != 3 && e + m != 7) continue;
      for (const int bias : {range.lowest, range.highest}) {
        const std::string name = start + "b" + std::to_string(bias) + "f";
        all.push_back({name, format_of(name)});
      }
    }
  return all;
}

std::string test_name(const testing::TestParamInfo<NamedFormat>& info) {
  std::string name;
  for (const char c : info.param.name) name += c == '-' ? 'n' : c;
  return name;
}

std::vector<float> bf16_inputs() {
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x10000u; ++high) x.push_back(std::bit_cast<float>(high << 16));
  return x;
}

/// All bf16 numbers; grid values and midpoints −1, 0, +1 ulp of both signs; specials; random bits.
std::vector<float> inputs_for(const ElementFormat& f) {
  std::vector<float> x = bf16_inputs();
  std::vector<double> points = test::grid_table(f).values;
  points.push_back(test::grid_table(f).continued);
  const size_t grid = points.size();
  for (size_t i = 0; i + 1 < grid; ++i) points.push_back((points[i] + points[i + 1]) / 2);
  for (const double point : points) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(point));
    for (const uint32_t near : {bits - 1, bits, bits + 1})
      if ((near & kF32MagnitudeMask) == near)
        for (const uint32_t sign : {0u, kF32SignBit}) x.push_back(std::bit_cast<float>(near | sign));
  }
  std::mt19937 random(20250301);
  for (int i = 0; i < 20000; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  while (x.size() % 64 != 0) x.push_back(0.0f);
  return x;
}

/// Codes of an unscaled spec by `scalar`'s function and by `simd`'s op, against the search in the grid.
void compare_codes(const NamedFormat& named, const std::vector<float>& x, Rounding rounding, const char* rounding_name,
                   bool ieee, Verdict& total) {
  const ElementFormat& f = named.format;
  const test::GridTable table = test::grid_table(f);
  const bool stochastic = is_stochastic(rounding);
  const bool option = ieee && f.bits < 16;
  const std::string spec = named.name + ":none:" + rounding_name + (option ? "+ieee" : "");
  StepInfo step;
  step.seed = kSeed;
  step.step = kStep;
  test::Quantizer simd(simd::make_backend(1), spec, {static_cast<int64_t>(x.size())}, "last",
                       stochastic ? &step : nullptr);
  std::copy(x.begin(), x.end(), simd.input());
  simd.run();
  host_math::Words words{};
  for (size_t i = 0; i < x.size(); ++i) {
    if (stochastic && i % 4 == 0) words = host_math::philox(kSeed, i / 4, test::Quantizer::kStream, kStep);
    const uint32_t random = stochastic ? words.w[i % 4] : 0;
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    const uint32_t want = test::search_code(x[i], f, table, rounding, ieee, random);
    const uint32_t scalar = scalar::encode_value(x[i], f, rounding, ieee, random);
    total.add(scalar == want, bits, scalar, want, "scalar");
    const uint32_t code = test::code_at(simd.codes(), static_cast<int64_t>(i), f.bits);
    total.add(code == want, bits, code, want, "simd");
  }
  EXPECT_EQ(total.wrong, 0) << spec << ": " << total.first;
}

class CodecProof : public testing::TestWithParam<NamedFormat> {};
INSTANTIATE_TEST_SUITE_P(BuiltIn, CodecProof, testing::ValuesIn(built_in_formats()), test_name);
INSTANTIATE_TEST_SUITE_P(User, CodecProof, testing::ValuesIn(user_formats()), test_name);

TEST_P(CodecProof, every_rounding_and_policy_gives_the_code_found_by_search) {
  const ElementFormat& f = GetParam().format;
  const std::vector<float> x = inputs_for(f);
  Verdict total;
  for (const RoundingRow& row : kRoundings)
    for (const bool ieee : {false, true}) {
      // Policies of the spec: `ieee` needs specials; bf16 and fp16 levels have it always.
      if (ieee ? f.specials == Specials::none : f.bits >= 16) continue;
      compare_codes(GetParam(), x, row.rounding, row.name, ieee, total);
    }
  std::printf("%s: %lld comparisons, %lld mismatches\n", GetParam().name.c_str(),
              static_cast<long long>(total.compared), static_cast<long long>(total.wrong));
}

/// A packed row with every code of the format in order.
HostValue every_code(const NamedFormat& named) {
  const int64_t count = int64_t{1} << named.format.bits;
  HostValue q{{DType::packed, {count}, parse_quant_spec(named.name + ":none"), Axis::last}, {}};
  q.parts.emplace_back(static_cast<size_t>(part_layouts(q.type)[0].bytes));
  for (int64_t code = 0; code < count; ++code)
    scalar::store_code(reinterpret_cast<uint8_t*>(q.parts[0].data()), code, named.format.bits,
                       static_cast<uint32_t>(code));
  return q;
}

TEST_P(CodecProof, every_code_decodes_to_its_value_in_the_table) {
  const auto& [name, f] = GetParam();
  const test::GridTable table = test::grid_table(f);
  const HostValue q = every_code(GetParam());
  const std::vector<float> scalar = test::floats(test::run_node(*scalar::make_backend(), Op::dequantize, {q})[0]);
  const std::vector<float> simd = test::floats(test::run_node(*simd::make_backend(1), Op::dequantize, {q})[0]);
  const uint32_t sign = 1u << (f.bits - 1);
  for (uint32_t code = 0; code < (1u << f.bits); ++code) {
    float want = std::numeric_limits<float>::quiet_NaN();
    const uint32_t magnitude = code & (sign - 1);
    if (f.encoding == Encoding::twos_complement)
      want = static_cast<float>((static_cast<int>(code ^ sign) - static_cast<int>(sign)) * table.values[1]);
    else if (magnitude < table.values.size())
      want = static_cast<float>(table.values[magnitude]);
    else if (f.specials == Specials::ieee && magnitude == table.values.size())
      want = std::numeric_limits<float>::infinity();
    if (f.encoding == Encoding::sign_magnitude && (code & sign) != 0) want = -want;
    ASSERT_TRUE(test::same_bits(scalar[code], want)) << name << " code " << code;
    ASSERT_TRUE(test::same_bits(simd[code], want)) << name << " code " << code;
  }
}

// ---- scale bytes ----

struct ScaleFormatRow {
  std::string name;  // e8m0, e4m3, ue5m3 …
  std::string rule;
  int exponent_bits, mantissa_bits;
};

std::vector<ScaleFormatRow> scale_formats() {
  std::vector<ScaleFormatRow> all{{"e8m0", "floor", 8, 0}, {"e4m3", "one", 4, 3}};
  for (int e = 1; e <= 8; ++e)
    for (int m = 0; m <= 7; ++m)
      if (e + m >= 2 && e + m <= 8) all.push_back({"ue" + std::to_string(e) + "m" + std::to_string(m), "one", e, m});
  return all;
}

/// §2's scale formats: the all-ones code is NaN; e8m0 has no zero and no fraction.
double scale_byte_value(const ScaleFormatRow& row, int code) {
  const int bits = row.exponent_bits + row.mantissa_bits;
  if (code == (1 << bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (row.name == "e8m0") return std::ldexp(1.0, code - 127);
  const int bias = (1 << (row.exponent_bits - 1)) - 1, m = row.mantissa_bits;
  const int field = code >> m, fraction = code & ((1 << m) - 1);
  return field == 0 ? std::ldexp(fraction, 1 - bias - m) : std::ldexp((1 << m) + fraction, field - bias - m);
}

class ScaleBytes : public testing::TestWithParam<ScaleFormatRow> {};
INSTANTIATE_TEST_SUITE_P(Formats, ScaleBytes, testing::ValuesIn(scale_formats()),
                         [](const auto& row) { return row.param.name; });

TEST_P(ScaleBytes, multiply_every_element_code_by_their_value) {
  const ScaleFormatRow& row = GetParam();
  const int64_t scales = int64_t{1} << (row.exponent_bits + row.mantissa_bits);
  HostValue q{{DType::packed, {scales, 16}, parse_quant_spec("e2m1:b16:" + row.name + "/" + row.rule), Axis::last}, {}};
  std::vector<uint8_t> codes, bytes;
  for (int64_t s = 0; s < scales; ++s) {
    bytes.push_back(static_cast<uint8_t>(s));
    for (int pair = 0; pair < 8; ++pair) codes.push_back(static_cast<uint8_t>(2 * pair | (2 * pair + 1) << 4));
  }
  q.parts = {test::to_bytes(codes), test::to_bytes(bytes)};
  const test::GridTable table = test::grid_table(kE2m1);
  const std::vector<float> scalar = test::floats(test::run_node(*scalar::make_backend(), Op::dequantize, {q})[0]);
  const std::vector<float> simd = test::floats(test::run_node(*simd::make_backend(1), Op::dequantize, {q})[0]);
  for (size_t i = 0; i < scalar.size(); ++i) {
    const size_t code = i % 16;
    const double value = code < 8 ? table.values[code] : -table.values[code - 8];
    // exact in binary64: the only rounding is the one to binary32
    const auto want = static_cast<float>(value * scale_byte_value(row, static_cast<int>(i / 16)));
    ASSERT_TRUE(test::same_bits(scalar[i], want)) << "byte " << i / 16 << " code " << code;
    ASSERT_TRUE(test::same_bits(simd[i], want)) << "byte " << i / 16 << " code " << code;
  }
}

// ---- CUDA's headers ----

class CudaHeaders : public testing::TestWithParam<test::CudaConversion> {};
INSTANTIATE_TEST_SUITE_P(Conversions, CudaHeaders, testing::ValuesIn(test::kCudaConversions),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(CudaHeaders, give_the_codes_and_values_of_scalar) {
  if (!test::cuda_headers_installed()) GTEST_SKIP() << "cuda_fp4.h, cuda_fp6.h and cuda_fp8.h were not found";
  const test::CudaConversion& row = GetParam();
  const std::vector<float> x = inputs_for(row.format);
  for (const float v : x)
    ASSERT_EQ(scalar::encode_value(v, row.format, row.rounding, row.ieee), test::cuda_code(row, v))
        << test::show_bits(v);
  for (uint32_t code = 0; code < (1u << row.format.bits); ++code)
    ASSERT_TRUE(test::same_bits(scalar::decode_code(code, row.format), test::cuda_value(row.format, code))) << code;
  std::printf("%s: %zu inputs, %d codes\n", row.name, x.size(), 1 << row.format.bits);
}

}  // namespace
}  // namespace fp4sim
