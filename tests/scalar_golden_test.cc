// The codec and the quantizer against values from outside (golden/spec). Differences of policy are stated at each test;
// everything else must agree: 0 mismatches.
#include <bit>
#include <limits>

#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/scale.h"
#include "tests/golden_text.h"
#include "tests/node_runner.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

using scalar::decode_code;
using scalar::encode_value;

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

/// Equal bits, or both NaN (numerics.md §1).
bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

/// E8M0 seen as an element format: no fraction, one binade at 2^0; its scale rules are roundings to powers of two.
constexpr ElementFormat kPowerOfTwo{2, 1, 0, 1, Encoding::sign_magnitude, Specials::none, true, false};
/// The IEEE-style FP8 formats of ml_dtypes, which fp4sim has no rows for.
constexpr ElementFormat kE4m3Ieee{8, 4, 3, 7, Encoding::sign_magnitude, Specials::ieee, true, false};
constexpr ElementFormat kE3m4Ieee{8, 3, 4, 3, Encoding::sign_magnitude, Specials::ieee, true, false};

struct PeerFormat {
  const char* name;
  ElementFormat format;
  bool ieee;    // ml_dtypes overflows to NaN or Inf: compare with policy `ieee`
  size_t rows;  // of encode_*.csv
};
constexpr PeerFormat kPeerFormats[] = {
    {"float4_e2m1fn", kE2m1, false, 2597},  {"float6_e2m3fn", kE2m3, false, 2885},
    {"float6_e3m2fn", kE3m2, false, 2885},  {"float8_e4m3fn", kE4m3, true, 4025},
    {"float8_e5m2", kE5m2, true, 3989},     {"float8_e4m3", kE4m3Ieee, true, 3941},
    {"float8_e3m4", kE3m4Ieee, true, 3845},
};

class MlDtypes : public testing::TestWithParam<PeerFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, MlDtypes, testing::ValuesIn(kPeerFormats),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(MlDtypes, decodes_every_code_alike) {
  const std::vector<test::CodeRow> rows = test::ml_dtypes_rows("decode", GetParam().name);
  ASSERT_EQ(rows.size(), size_t{1} << GetParam().format.bits);
  for (const test::CodeRow& row : rows)
    EXPECT_TRUE(same(decode_code(row.code, GetParam().format), std::bit_cast<float>(row.bits))) << row.code;
}

// Policy difference: a NaN becomes −0 (0x8) in ml_dtypes' formats without NaN and keeps its sign in the others; fp4sim
// gives +max_normal and the positive canonical NaN.
TEST_P(MlDtypes, encodes_every_row_alike) {
  const auto [name, format, ieee, row_count] = GetParam();
  const std::vector<test::CodeRow> rows = test::ml_dtypes_rows("encode", name);
  ASSERT_EQ(rows.size(), row_count);
  const uint32_t canonical_nan = format.specials == Specials::none ? max_normal_code(format) : nan_code(format);
  int64_t nans = 0;
  for (const test::CodeRow& row : rows) {
    const auto x = std::bit_cast<float>(row.bits);
    const bool nan = std::isnan(x) || std::isnan(decode_code(row.code, format));
    EXPECT_EQ(encode_value(x, format, Rounding::rne, ieee), nan ? canonical_nan : row.code) << std::hex << row.bits;
    nans += nan;
  }
  EXPECT_GT(nans, 0);
}

TEST(MlDtypesScales, decode_every_e8m0_code_alike) {
  const QuantSpec spec = parse_quant_spec("mxfp4");
  const std::vector<test::CodeRow> rows = test::ml_dtypes_rows("decode", "float8_e8m0fnu");
  ASSERT_EQ(rows.size(), 256u);
  for (const test::CodeRow& row : rows)
    EXPECT_TRUE(same(scalar::decode_scale(static_cast<uint8_t>(row.code), spec), std::bit_cast<float>(row.bits)));
}

// Policy differences: 0, negative numbers, values from 1.5·2^127 on, Inf and NaN give 0xFF there (fp4sim: amax 0 has
// code 0, exponents clamp at 127, amax is never negative), and subnormals above 2^-127 go up to 2^-126 there.
TEST(MlDtypesScales, rule_even_rounds_to_powers_of_two_alike) {
  int64_t compared = 0;
  for (const test::CodeRow& row : test::ml_dtypes_rows("encode", "float8_e8m0fnu")) {
    const bool other_policy =
        row.bits == 0 || row.bits >= 0x7F400000u || (row.bits > 0x00400000u && row.bits < 0x00600000u);
    if (other_policy) continue;
    const int s = scalar::e8m0_exponent(std::bit_cast<float>(row.bits), kPowerOfTwo, ScaleRule::even);
    EXPECT_EQ(static_cast<uint32_t>(s + 127), row.code) << std::hex << row.bits;
    ++compared;
  }
  EXPECT_GT(compared, 2700);
}

/// "0.25+" is the next float above 0.25, "-qNaN", "FLT_MAX", "2^-10": the input names of the CUDA file.
float cuda_input(std::string name) {
  if (name.starts_with("-")) return -cuda_input(name.substr(1));
  if (name.ends_with("+") && name.size() > 1)
    return std::nextafterf(cuda_input(name.substr(0, name.size() - 1)), std::numeric_limits<float>::infinity());
  if (name.ends_with("-") && name.size() > 1) return std::nextafterf(cuda_input(name.substr(0, name.size() - 1)), 0.0f);
  if (name.starts_with("2^")) return std::ldexp(1.0f, std::atoi(name.c_str() + 2));
  if (name == "FLT_MAX") return std::numeric_limits<float>::max();
  if (name == "denorm_min") return std::numeric_limits<float>::denorm_min();
  if (name == "+Inf" || name == "Inf") return std::numeric_limits<float>::infinity();
  if (name.find("NaN") != std::string::npos) return std::numeric_limits<float>::quiet_NaN();
  return std::strtof(name.c_str(), nullptr);
}

// Policy difference: CUDA's E5M2 NaN is 0x7F, fp4sim's 0x7E.
TEST(CudaHostConversions, agree_for_every_named_input) {
  struct Column {
    ElementFormat format;
    Rounding rounding;
    bool ieee;
  };
  constexpr Column kColumns[] = {{kE2m1, Rounding::rne, false}, {kE2m1, Rounding::rtz, false},
                                 {kE2m3, Rounding::rne, false}, {kE2m3, Rounding::rtz, false},
                                 {kE3m2, Rounding::rne, false}, {kE3m2, Rounding::rtz, false},
                                 {kE4m3, Rounding::rne, false}, {kE4m3, Rounding::rne, true},
                                 {kE5m2, Rounding::rne, false}, {kE5m2, Rounding::rne, true}};
  int inputs = 0;
  for (std::string line : test::split(test::golden_bytes("spec/cuda13_host_conversions.txt"), '\n')) {
    if (line.starts_with("in ")) continue;
    if (line.empty()) break;  // the other tables follow
    const std::string name = test::words(line)[0];
    for (char& c : line) c = c == '|' ? ' ' : c;
    const std::vector<std::string> fields = test::words(line);
    ASSERT_EQ(fields.size(), 11u) << line;
    const float x = cuda_input(name);
    for (size_t i = 0; i < 10; ++i) {
      const Column& column = kColumns[i];
      uint32_t expected = test::parse_hex(fields[i + 1]);
      if (std::isnan(x) && column.format == kE5m2) expected = 0x7E;
      // E4M3 without saturation: the sign of an overflow's NaN is kept there.
      if (column.ieee && column.format == kE4m3 && (expected & 0x7Fu) == 0x7Fu) expected = 0x7F;
      EXPECT_EQ(encode_value(x, column.format, column.rounding, column.ieee), expected) << name << " column " << i;
    }
    ++inputs;
  }
  EXPECT_EQ(inputs, 48);
}

// Policy differences: Inf and NaN never reach a scale rule (the block is marked), and a negative amax does not exist:
// the sign is dropped on both sides.
TEST(CudaHostConversions, round_scales_down_as_floor_and_up_as_ceil) {
  int inputs = 0;
  for (std::string line : test::split(test::golden_bytes("spec/cuda13_host_conversions.txt"), '\n')) {
    if (!line.starts_with("E8M0 ") || line.find("in  ") != std::string::npos ||
        line.find("decode") != std::string::npos)
      continue;
    for (char& c : line) c = c == '|' || c == ',' ? ' ' : c;
    const std::vector<std::string> fields = test::words(line);
    std::string name = fields[1];
    float x = 0;
    if (name == "2^-149x3")
      x = 3 * std::numeric_limits<float>::denorm_min();
    else if (name == "2^-127+2^16ulp")
      x = std::bit_cast<float>(0x00400000u + 0x10000u);
    else if (name.ends_with("+ulp"))
      x = std::nextafterf(cuda_input(name.substr(0, name.size() - 4)), 4.0f);
    else if (name.ends_with("-ulp"))
      x = std::nextafterf(cuda_input(name.substr(0, name.size() - 4)), 0.0f);
    else
      x = cuda_input(name);
    x = std::fabs(x);
    if (!std::isfinite(x) || x == 0) continue;
    EXPECT_EQ(static_cast<uint32_t>(scalar::e8m0_exponent(x, kPowerOfTwo, ScaleRule::floor) + 127),
              test::parse_hex(fields[2]))
        << name;
    EXPECT_EQ(static_cast<uint32_t>(scalar::e8m0_exponent(x, kPowerOfTwo, ScaleRule::ceil) + 127),
              test::parse_hex(fields[4]))
        << name;
    ++inputs;
  }
  EXPECT_EQ(inputs, 19);
}

const ElementFormat& named_format(const std::string& name) {
  for (const ElementFormatRow& row : kElementFormats)
    if (name == row.name) return row.format;
  throw std::runtime_error("unknown format " + name);
}

void check_encode_row(const std::vector<std::string>& fields) {
  const ElementFormat& format = named_format(test::words(fields[1])[0]);
  const std::vector<std::string> inputs = test::words(fields[2]), codes = test::words(fields[3]);
  ASSERT_EQ(inputs.size(), codes.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(encode_value(test::parse_float(inputs[i]), format, Rounding::rne, false), test::parse_hex(codes[i]))
        << fields[1] << " " << inputs[i];
}

void check_decode_row(const std::vector<std::string>& fields) {
  const QuantSpec mx = parse_quant_spec("mxfp4");
  const std::vector<std::string> codes = test::words(fields[2]), values = test::words(fields[3]);
  ASSERT_EQ(codes.size(), values.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    const uint32_t code = test::parse_hex(codes[i]);
    const float value = fields[1] == "e8m0" ? scalar::decode_scale(static_cast<uint8_t>(code), mx)
                                            : decode_code(code, named_format(fields[1]));
    EXPECT_EQ(bits_of(value), bits_of(test::parse_float(values[i]))) << fields[1] << " " << codes[i];
  }
}

void check_scale_row(const std::vector<std::string>& fields) {
  const std::vector<std::string> parameters = test::words(fields[1]);
  const QuantSpec spec = parse_quant_spec(parameters[2] + ":b32:e8m0/" + parameters[1]);
  const std::vector<std::string> inputs = test::words(fields[2]), bytes = test::words(fields[3]);
  ASSERT_EQ(inputs.size(), bytes.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(scalar::scale_candidates(test::parse_float(inputs[i]), {}, spec).first, std::stoi(bytes[i])) << inputs[i];
}

TEST(ConformanceRows, every_row_on_single_values_holds) {
  int rows = 0;
  for (const std::string& line : test::split(test::golden_bytes("spec/conformance_rows.csv"), '\n')) {
    const std::vector<std::string> fields = test::split(line, ',');
    if (line.starts_with("#") || fields.size() < 4) continue;
    if (fields[0] == "encode") ++rows, check_encode_row(fields);
    if (fields[0] == "decode") ++rows, check_decode_row(fields);
    if (fields[0] == "scale") ++rows, check_scale_row(fields);
  }
  EXPECT_EQ(rows, 12);
}

struct MicroxRow {  // index.json
  const char* spec;
  int64_t offset;  // bytes into output_f32.bin
};
constexpr MicroxRow kMicrox[] = {{"e2m1:b16:e8m0/floor", 0},      {"e2m1:b32:e8m0/floor", 49152},
                                 {"e2m3:b16:e8m0/floor", 98304},  {"e2m3:b32:e8m0/floor", 147456},
                                 {"e4m3:b16:e8m0/floor", 196608}, {"e4m3:b32:e8m0/floor", 245760}};

// Policy difference: microxcaling gives +0 for an input of −0; its other zeros keep the sign of the input.
TEST(Microxcaling, dequantized_values_are_equal_for_every_format_and_block_size) {
  const std::vector<float> input = test::golden_floats("spec/microxcaling/input_f32_96x128.bin");
  const std::vector<float> output = test::golden_floats("spec/microxcaling/output_f32.bin");
  ASSERT_EQ(input.size(), 96u * 128u);
  ASSERT_EQ(output.size(), 6 * input.size());
  const auto backend = scalar::make_backend();
  for (const MicroxRow& row : kMicrox) {
    const auto q = test::run_node(*backend, Op::quantize, {test::f32_value({96, 128}, input)},
                                  {{"spec", row.spec}, {"axis", "last"}});
    const std::vector<float> actual = test::floats(test::run_node(*backend, Op::dequantize, q)[0]);
    for (size_t i = 0; i < input.size(); ++i) {
      const float expected = output[static_cast<size_t>(row.offset) / sizeof(float) + i];
      if (bits_of(input[i]) == kF32SignBit) {
        EXPECT_EQ(actual[i], expected);
      } else {
        EXPECT_EQ(bits_of(actual[i]), bits_of(expected)) << row.spec << " element " << i << " of input " << input[i];
      }
    }
  }
}

}  // namespace
}  // namespace fp4sim
