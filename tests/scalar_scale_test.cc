// Scales from amax (numerics.md §4.1–4.3): golden rows, and the rules against their definitions in words.
#include "reference/scalar/scale.h"

#include <bit>
#include <limits>

#include "reference/scalar/codec.h"
#include "tests/block_oracle.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

struct GoldenRow {
  uint32_t amax;
  int floor[2], ceil[2], even[2], rceil[2];  // scale byte, code of amax
};

// numerics.md §4.1, E2M1.
constexpr GoldenRow kGoldenRows[] = {
    {0x40800000, {127, 6}, {127, 6}, {127, 6}, {127, 6}}, {0x40833333, {127, 6}, {128, 4}, {127, 6}, {127, 6}},
    {0x40C00000, {127, 7}, {128, 5}, {127, 7}, {127, 7}}, {0x40C00001, {127, 7}, {128, 5}, {127, 7}, {128, 5}},
    {0x40D00000, {127, 7}, {128, 5}, {127, 7}, {128, 5}}, {0x40DFFFFF, {127, 7}, {128, 5}, {127, 7}, {128, 5}},
    {0x40E00000, {127, 7}, {128, 6}, {128, 6}, {128, 6}}, {0x40FCCCCD, {127, 7}, {128, 6}, {128, 6}, {128, 6}},
    {0x40FFFFFF, {127, 7}, {128, 6}, {128, 6}, {128, 6}}, {0x00800000, {0, 4}, {0, 4}, {0, 4}, {0, 4}},
    {0x00400000, {0, 2}, {0, 2}, {0, 2}, {0, 2}},         {0x00000001, {0, 0}, {0, 0}, {0, 0}, {0, 0}},
    {0x7F7FFFFF, {252, 7}, {253, 6}, {253, 6}, {253, 6}},
};

TEST(E8m0Rules, give_the_golden_scale_bytes_and_codes) {
  for (const GoldenRow& row : kGoldenRows) {
    const float amax = from_bits(row.amax);
    const struct {
      const char* rule;
      const int* expected;
    } columns[] = {{"floor", row.floor}, {"ceil", row.ceil}, {"even", row.even}, {"rceil", row.rceil}};
    for (const auto& column : columns) {
      const QuantSpec spec = parse_quant_spec("e2m1:b32:e8m0/" + std::string(column.rule));
      const uint8_t byte = scalar::scale_candidates(amax, {}, spec).first;
      const double y = scalar::scaled_value(amax, scalar::decode_scale(byte, spec), {}, spec);
      EXPECT_EQ(byte, column.expected[0]) << column.rule << std::hex << row.amax;
      EXPECT_EQ(scalar::encode_value(y, kE2m1, Rounding::rne, false), static_cast<uint32_t>(column.expected[1]))
          << column.rule << std::hex << row.amax;
    }
  }
}

TEST(E8m0Rules, match_their_definitions_around_every_power_of_two_and_maximum) {
  for (const ElementFormatRow& element : kElementFormats) {
    if (element.format.bits > 8) continue;
    const double max_normal = max_normal_value(element.format);
    for (int exponent = -149; exponent <= 127; ++exponent)
      for (const double point : {1.0, 1.25, 1.5, 1.75, 1.875, max_normal / std::ldexp(1.0, std::ilogb(max_normal))})
        for (int ulp = -1; ulp <= 1; ++ulp) {
          const auto middle = static_cast<float>(std::ldexp(point, exponent));
          const auto amax = from_bits(std::bit_cast<uint32_t>(middle) + static_cast<uint32_t>(ulp));
          if (!(amax > 0) || !std::isfinite(amax)) continue;
          for (const char* rule : {"floor", "ceil", "even", "rceil", "opt"}) {
            const QuantSpec spec = parse_quant_spec(std::string(element.name) + ":b32:e8m0/" + rule);
            ASSERT_EQ(std::ldexp(1.0f, scalar::e8m0_exponent(amax, spec.element, spec.rule)),
                      test::oracle_e8m0(amax, spec))
                << element.name << " " << rule << " amax " << amax;
          }
        }
  }
}

TEST(E8m0Rules, rceil_alone_never_saturates_the_block_maximum_below_the_top_exponent) {
  for (uint32_t bits = 1; bits < 0x7F000000u; bits += 40503u) {
    const float amax = from_bits(bits);
    const int s = scalar::e8m0_exponent(amax, kE2m1, ScaleRule::rceil);
    EXPECT_LE(std::ldexp(static_cast<double>(amax), -s), 6.0);
    if (s > -127) {
      EXPECT_GT(std::ldexp(static_cast<double>(amax), 1 - s), 6.0);
    }
  }
}

TEST(E8m0Rules, opt_tries_rceil_and_the_exponent_below_both_clamped) {
  const QuantSpec spec = parse_quant_spec("e2m1:b32:e8m0/opt");
  const auto exponents = [&](float amax) {
    const scalar::ScaleCandidates c = scalar::scale_candidates(amax, {}, spec);
    return std::pair{c.first - 127, c.second - 127};
  };
  EXPECT_EQ(exponents(6.0f), (std::pair{0, -1}));
  EXPECT_EQ(exponents(7.0f), (std::pair{1, 0}));
  EXPECT_EQ(exponents(0x1p-149f), (std::pair{-127, -127}));
  const QuantSpec int8 = parse_quant_spec("int8:b32:e8m0/opt");
  const scalar::ScaleCandidates top = scalar::scale_candidates(std::numeric_limits<float>::max(), {}, int8);
  EXPECT_EQ(top.first, 254);  // rceil 128
  EXPECT_EQ(top.second, 254);
}

TEST(E4m3Profiles, give_the_golden_scale_bytes) {
  // numerics.md §4.2: (A, a) and the byte of each profile.
  const struct {
    const char* rule;
    float tensor_amax, amax;
    int byte;
  } rows[] = {{"te", 7.75f, 5.8125f, 0x7A},
              {"exact", 7.75f, 5.8125f, 0x7A},
              {"modelopt", 7.75f, 5.8125f, 0x7B},
              {"te", 0.017822265625f, 0.0004177093505859375f, 83},
              {"exact", 0.017822265625f, 0.0004177093505859375f, 82},
              {"te", 1.09375f, 0.166015625f, 105},
              {"fouroversix", 1.09375f, 0.166015625f, 105},
              {"exact", 1.09375f, 0.166015625f, 104},
              {"modelopt", 0.21875f, 0.006103515625f, 84}};
  for (const auto& row : rows) {
    const QuantSpec spec = parse_quant_spec("e2m1:b16:e4m3/" + std::string(row.rule));
    const scalar::TensorScales tensor = scalar::tensor_scales(row.tensor_amax, spec);
    EXPECT_EQ(scalar::scale_candidates(row.amax, tensor, spec).first, row.byte) << row.rule << " " << row.amax;
  }
}

/// Specs of every profile, and of te, exact and one with other elements and scale formats.
constexpr const char* kProfileSpecs[] = {
    "e2m1:b16:e4m3/te",          "e2m1:b16:e4m3/exact",       "e2m1:b16:e4m3/torchao",     "e2m1:b16:e4m3/modelopt",
    "e2m1:b16:e4m3/fouroversix", "e2m1:b16:e4m3/one",         "e2m1:b16:e4m3/4over6(mse)", "e2m1:b16:e4m3/4over6(mae)",
    "int8:b16:e4m3/te",          "e3m0:b16:e4m3/exact",       "e5m2:b16:ue5m3/te",         "e2m1:b16:ue3m4/exact",
    "e1m2:b16:ue8m0/te",         "e4m3:b16:ue1m1/exact",      "e5m2:b16:ue8m0/exact",      "int4:b16:ue4m4/one",
    "e2m1b-100f:b16:ue6m2/te",   "e2m1b140f:b16:ue8m0/exact", "e2m1b140f:b16:e4m3/te",     "e5m0b-90f:b16:ue8m0/one",
};

/// (A, a) with a ≤ A: neighbours of halves of powers of two over the whole range, and random numbers.
std::vector<std::pair<float, float>> amax_pairs() {
  std::vector<std::pair<float, float>> pairs;
  uint32_t state = 12345;
  const auto random = [&state] { return state = state * 1664525u + 1013904223u; };
  for (uint32_t bits = 1; bits < 0x7F800000u; bits += 15485863u / 4)
    for (const uint32_t below : {0u, 1u, 0x00400000u, 0x01800001u, random() >> 6, random() >> 4})
      pairs.push_back({from_bits(bits), from_bits(below < bits ? bits - below : 1)});
  return pairs;
}

TEST(Profiles, equal_a_second_implementation_over_the_whole_range_of_amax) {
  for (const char* text : kProfileSpecs) {
    const QuantSpec spec = parse_quant_spec(text);
    const test::ScaleOracle oracle(spec, spec.element);
    for (const auto& [tensor_amax, amax] : amax_pairs()) {
      const scalar::TensorScales tensor = scalar::tensor_scales(tensor_amax, spec);
      const test::OracleTensorScales expected = oracle.tensor(tensor_amax);
      ASSERT_EQ(tensor.decode, expected.decode) << text << " A " << tensor_amax;
      const scalar::ScaleCandidates c = scalar::scale_candidates(amax, tensor, spec);
      const float b = scalar::decode_scale(c.first, spec);
      ASSERT_EQ(b, oracle.block(amax, expected, false)) << text << " A " << tensor_amax << " a " << amax;
      ASSERT_EQ(scalar::decode_scale(c.second, spec), oracle.block(amax, expected, oracle.has_two()));
      for (const float x : {amax, -amax / 3, amax * 0.7f, -0.0f}) {
        const double y = scalar::scaled_value(x, b, tensor, spec);
        ASSERT_EQ(y, oracle.y(x, b, expected)) << text << " A " << tensor_amax << " a " << amax << " x " << x;
        ASSERT_EQ(std::signbit(y), std::signbit(x));
      }
    }
  }
}

TEST(Profiles, bound_the_tensor_scale_and_have_one_for_zeros) {
  for (const char* text : kProfileSpecs) {
    const QuantSpec spec = parse_quant_spec(text);
    EXPECT_EQ(scalar::tensor_scales(0, spec).decode, 1.0f) << text;
    for (const float amax : {0x1p-149f, 0x1p-126f, 1.0f, std::numeric_limits<float>::max()}) {
      const scalar::TensorScales t = scalar::tensor_scales(amax, spec);
      EXPECT_TRUE(t.decode >= 0x1p-149f && std::isfinite(t.decode)) << text << " " << amax;
      EXPECT_TRUE(t.encode >= 0x1p-149f && std::isfinite(t.encode)) << text << " " << amax;
    }
  }
  const scalar::TensorScales tiny = scalar::tensor_scales(0x1p-149f, parse_quant_spec("nvfp4"));
  EXPECT_EQ(tiny.encode, std::numeric_limits<float>::max());
  EXPECT_EQ(tiny.decode, 1.0f / std::numeric_limits<float>::max());
  EXPECT_EQ(scalar::tensor_scales(2688.0f, parse_quant_spec("nvfp4")).decode, 1.0f);
}

TEST(Profiles, the_operation_order_decides_a_code_near_a_midpoint) {
  // Scale byte 07: x/s is just below 1.75, x·fl(1/s) is exactly 1.75.
  const float scale = 0.013671875f, x = 0.02392577938735485f;
  const double divided = scalar::scaled_value(x, scale, {}, parse_quant_spec("e2m1:b16:e4m3/one"));
  const double multiplied = scalar::scaled_value(x, scale, {}, parse_quant_spec("nvfp4"));
  EXPECT_EQ(scalar::encode_value(divided, kE2m1, Rounding::rne, false), 3u);
  EXPECT_EQ(scalar::encode_value(multiplied, kE2m1, Rounding::rne, false), 4u);
}

TEST(Profiles, an_underflown_scale_gives_signed_zeros_and_a_huge_quotient_stays_finite) {
  for (const char* text : kProfileSpecs) {
    const QuantSpec spec = parse_quant_spec(text);
    EXPECT_EQ(scalar::scaled_value(3.0f, 0, {1, 1, 1}, spec), 0.0);
    EXPECT_TRUE(std::signbit(scalar::scaled_value(-3.0f, 0, {1, 1, 1}, spec)));
    EXPECT_TRUE(std::signbit(scalar::scaled_value(-0.0f, 2, {1, 1, 1}, spec)));
  }
  for (const char* rule : {"te", "one", "torchao", "modelopt", "fouroversix", "4over6(mse)"}) {
    const QuantSpec spec = parse_quant_spec("e2m1:b16:e4m3/" + std::string(rule));
    EXPECT_EQ(scalar::scaled_value(-3e38f, 0x1p-9f, {1, 1, 0x1p-149f}, spec), -std::numeric_limits<float>::max());
  }
}

TEST(Profiles, exact_divides_once_in_binary64) {
  // x·2688/(b·A) with b = 448: 1/3 has no binary32 that equals its binary64.
  const QuantSpec spec = parse_quant_spec("e2m1:b16:e4m3/exact");
  EXPECT_EQ(scalar::scaled_value(1.0f, 448.0f, {18.0f, 1, 18.0f / 2688}, spec), 1.0 / 3.0);
}

TEST(Sr34, multiplies_y_by_three_quarters_exactly_and_leaves_the_scale) {
  for (const char* text : {"mxfp4", "nvfp4", "e2m1:row:fp32", "e2m1:none", "e2m1:b16:e4m3/one"}) {
    const QuantSpec plain = parse_quant_spec(text), scaled = parse_quant_spec(text + std::string("+sr34"));
    for (uint32_t bits = 1; bits < 0x7F000000u; bits += 40000003u) {
      const float x = from_bits(bits);
      EXPECT_EQ(scalar::scaled_value(x, 0.5f, {1, 1, 1}, scaled),
                0.75 * scalar::scaled_value(x, 0.5f, {1, 1, 1}, plain));
      if (is_unscaled(plain) || plain.scale == ScaleFormat::fp32) continue;
      EXPECT_EQ(scalar::scale_candidates(x, {x, 1, 1}, scaled).first,
                scalar::scale_candidates(x, {x, 1, 1}, plain).first);
    }
  }
}

TEST(Fp32Scales, y_never_exceeds_max_normal) {
  for (const char* text : {"e2m1:row:fp32", "e4m3:row:fp32", "e3m2:row:fp32", "e2m3:row:fp32", "e5m2:tensor:fp32",
                           "int8:row:fp32", "int4:col:fp32", "e1m2:b32:fp32", "e3m0:2d16:fp32"}) {
    const QuantSpec spec = parse_quant_spec(text);
    int64_t beyond = 0;
    for (uint32_t bits = 1; bits < 0x7F800000u; bits += 30011u) {
      const float amax = from_bits(bits), s = scalar::fp32_scale(amax, spec);
      ASSERT_LE(scalar::scaled_value(amax, s, {}, spec), max_normal_value(spec.element));
      beyond += static_cast<double>(amax / s) > max_normal_value(spec.element);
    }
    // Without the clamp y would exceed it for 8 to 12 % of amax values in e4m3, e3m2 and e2m3 (§4.3).
    if (spec.element == kE4m3) {
      EXPECT_GT(beyond, 3000);
    }
  }
}

TEST(Fp32Scales, pow2_is_the_smallest_power_that_holds_amax) {
  const QuantSpec spec = parse_quant_spec("e2m1:row:fp32/pow2");
  EXPECT_EQ(scalar::fp32_scale(6.0f, spec), 1.0f);
  EXPECT_EQ(scalar::fp32_scale(std::nextafterf(6.0f, 7.0f), spec), 2.0f);
  EXPECT_EQ(scalar::fp32_scale(0x1p-149f, spec), 0x1p-149f);
  EXPECT_EQ(scalar::fp32_scale(std::numeric_limits<float>::max(), spec), 0x1p126f);
  EXPECT_EQ(scalar::fp32_scale(0, spec), 1.0f);
}

TEST(Fp32Scales, pow2_holds_amax_in_every_element) {
  for (const char* element : {"e1m2", "e3m0", "e2m3", "e4m3", "e5m2", "int8", "int4", "e2m1b-90f", "e1m6b100f"}) {
    const QuantSpec spec = parse_quant_spec(std::string(element) + ":row:fp32/pow2");
    const double max_normal = max_normal_value(spec.element);
    for (uint32_t bits = 1; bits < 0x7F800000u; bits += 7919u * 4001u) {
      const float amax = from_bits(bits);
      const auto s = static_cast<double>(scalar::fp32_scale(amax, spec));
      EXPECT_TRUE(static_cast<double>(amax) <= max_normal * s || s == 0x1p127) << element << " " << amax;
      EXPECT_TRUE(static_cast<double>(amax) > max_normal * s / 2 || s == 0x1p-149) << element << " " << amax;
    }
  }
}

}  // namespace
}  // namespace fp4sim
