// The device functions of codecs, scales, estimators and random bits, compiled for the host, against scalar bit by bit.
// No device needed.
#include <bit>
#include <random>

#include "gpu/codec.cuh"
#include "gpu/divisor.cuh"
#include "gpu/e2m1.cuh"
#include "gpu/estimator.cuh"
#include "gpu/packing.cuh"
#include "gpu/philox.cuh"
#include "gpu/scale.cuh"
#include "gpu/short_codec.cuh"
#include "pch.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/estimator.h"
#include "reference/scalar/random_bits.h"
#include "reference/scalar/scale.h"
#include "tests/bits.h"

namespace fp4sim::test {
namespace {

std::vector<ElementFormat> formats() {
  std::vector<ElementFormat> all;
  for (const ElementFormatRow& row : kElementFormats) all.push_back(row.format);
  for (const char* spec : {"e2m1b-3f:none", "e1m6f:none", "e5m2b130f:none", "e5m0b-90f:none", "e4m1f:none",
                           "e1m1b148f:none", "e3m2f:none", "e2m0b150f:none"})
    all.push_back(parse_quant_spec(spec).element);
  return all;
}

/// Around every code and midpoint of a format with neighbours in binary64, far beyond its range, and random numbers.
std::vector<double> numbers_for(const ElementFormat& f) {
  std::mt19937_64 random(5);
  std::vector<double> y = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 0x1p-1074, 0x1p-300, 0x1p300, -0x1p-280};
  const auto around = [&](double middle) {
    for (const double v : {middle, std::nextafter(middle, HUGE_VAL), std::nextafter(middle, -HUGE_VAL)})
      y.push_back(v), y.push_back(-v);
  };
  const uint32_t top = max_normal_code(f), stride = std::max(1u, top / 300);
  for (uint32_t code = 0; code < top; code += stride) {
    const double lo = scalar::grid_value(code, f), hi = scalar::grid_value(code + 1, f);
    for (const double share : {0.0, 0.25, 0.5, 0.75}) around(lo + share * (hi - lo));
  }
  const double limit = max_normal_value(f);
  for (const double factor : {1.0, 1.0625, 1.125, 1.25, 1.5, 2.0, 1000.0}) around(factor * limit);
  const double least = min_positive_value(f);
  for (const double factor : {0.5, 0.25, 0x1p-30, 0x1p-60, 0x1p-100}) around(factor * least);
  for (int i = 0; i < 300; ++i) {
    const double magnitude = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 40) - 72);
    y.push_back((random() & 1) != 0 ? -magnitude * limit : magnitude * limit);
  }
  return y;
}

TEST(GpuCodec, encodes_every_format_rounding_and_policy_as_scalar_does) {
  std::mt19937 random(3);
  for (const ElementFormat& f : formats())
    for (const RoundingRow& rounding : kRoundings)
      for (const bool ieee : {false, true}) {
        if (ieee && f.specials == Specials::none) continue;
        for (const double y : numbers_for(f))
          for (const uint32_t bits : {0u, 0xFFFFFFFFu, static_cast<uint32_t>(random())})
            ASSERT_EQ(gpu::encode(y, {f, rounding.rounding, ieee}, bits),
                      scalar::encode_value(y, f, rounding.rounding, ieee, bits))
                << format_name(f) << " " << rounding.name << " " << y << " random " << bits;
      }
}

TEST(GpuCodec, decodes_every_code_as_scalar_does) {
  for (const ElementFormat& f : formats()) {
    const uint64_t codes = uint64_t{1} << f.bits, step = f.bits == 32 ? 65521 : 1;
    for (uint64_t code = 0; code < codes; code += step) {
      const auto c = static_cast<uint32_t>(code);
      ASSERT_TRUE(same_bits(gpu::decode(c, f), scalar::decode_code(c, f))) << format_name(f) << " " << code;
    }
  }
}

TEST(GpuCodec, finds_e2m1_magnitudes_by_clamped_sums_as_scalar_does) {
  const auto check = [](float y) {
    if (std::isnan(y)) return true;
    return (gpu::e2m1_word(y) & 0xFFu) == (scalar::encode_value(y, kE2m1, Rounding::rne, false) & 7u);
  };
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 3001) {
    const auto y = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_TRUE(check(y)) << show_bits(y);
  }
  for (const double y : numbers_for(kE2m1)) ASSERT_TRUE(check(static_cast<float>(y))) << y;
}

TEST(GpuCodec, rounds_e2m1_magnitudes_stochastically_by_clamped_sums_as_scalar_does) {
  std::mt19937 random(4);
  const auto check = [&](float y) {
    if (!std::isfinite(y)) return;
    for (const uint32_t r : {0u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, static_cast<uint32_t>(random())})
      ASSERT_EQ(gpu::e2m1_sr32(y, r), scalar::encode_value(y, kE2m1, Rounding::sr32, false, r) & 7u)
          << show_bits(y) << " random " << r;
  };
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 15013) check(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (const double y : numbers_for(kE2m1)) check(static_cast<float>(y));
}

TEST(GpuCodec, encodes_and_decodes_binary32_numbers_by_the_short_way_as_scalar_does) {
  std::mt19937 random(11);
  int taken = 0;
  for (const ElementFormat& f : formats()) {
    if (gpu::short_decoder_takes(f)) {
      const gpu::ShortDecoder decoder = gpu::short_decoder_of(f);
      for (uint32_t code = 0; code < 1u << f.bits; ++code)
        ASSERT_TRUE(same_bits(gpu::decode_short(code, decoder), scalar::decode_code(code, f)))
            << format_name(f) << " " << code;
    }
    for (const Rounding rounding : {Rounding::rne, Rounding::sr32})
      for (const bool ieee : {false, true}) {
        const gpu::Codec codec{f, rounding, ieee};
        if ((ieee && f.specials == Specials::none) || !gpu::short_codec_takes(codec)) continue;
        ++taken;
        const gpu::ShortCodec short_codec = gpu::short_codec_of(codec);
        for (const double number : numbers_for(f)) {
          const auto y = static_cast<float>(number);
          const auto bits = static_cast<uint32_t>(random());
          if (rounding == Rounding::rne) {
            ASSERT_EQ(gpu::encode_short_rne(y, short_codec), scalar::encode_value(y, f, rounding, ieee)) << y;
          } else if (std::isfinite(y)) {
            for (const uint32_t r : {0u, 0xFFFFFFFFu, bits})
              ASSERT_EQ(gpu::encode_short_sr32(y, r, short_codec), scalar::encode_value(y, f, rounding, ieee, r))
                  << format_name(f) << " " << y << " random " << r;
          }
        }
      }
  }
  EXPECT_GT(taken, 20);
}

TEST(GpuDivisor, divides_as_the_division_does_where_codes_depend_on_it) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const float s = gpu::float_of(static_cast<uint32_t>(random() % 0x7F000000u) + 1);
    const gpu::Divisor by(s);
    for (int k = 0; k < 100; ++k) {
      const float share = static_cast<float>(random() % (1 << 24)) * 0x1p-21f, x = (k % 2 != 0 ? -share : share) * s;
      if (!std::isfinite(x)) continue;
      const float exact = x / s, quick = by.quotient_of(x);
      ASSERT_EQ(std::signbit(quick), std::signbit(x));
      if (!(std::fabs(exact) > 0x1p-20f)) continue;
      ASSERT_TRUE(same_bits(quick, exact)) << show_bits(x) << " " << show_bits(s);
    }
  }
}

TEST(GpuCodec, reads_and_writes_codes_of_every_width_as_scalar_does) {
  std::mt19937 random(9);
  for (int bits = 3; bits <= 8; ++bits) {
    std::vector<uint8_t> row(static_cast<size_t>(bits)), expected(row.size());
    gpu::CodeGroup group;
    for (int i = 0; i < gpu::kGroupCodes; ++i) {
      const uint32_t code = static_cast<uint32_t>(random()) & ((1u << bits) - 1u);
      group.put(i, bits, code);
      scalar::store_code(expected.data(), i, bits, code);
    }
    gpu::store_group(row.data(), bits, group);
    EXPECT_EQ(row, expected) << bits;
    for (int i = 0; i < gpu::kGroupCodes; ++i)
      EXPECT_EQ(gpu::load_code(row.data(), i, bits), scalar::load_code(row.data(), i, bits)) << bits << " " << i;
  }
}

TEST(GpuPhilox, gives_the_random_bits_of_scalar) {
  std::mt19937_64 random(1);
  for (int n = 0; n < 200; ++n) {
    StepInfo step;
    step.seed = random();
    step.step = static_cast<uint32_t>(random());
    const auto stream = static_cast<uint32_t>(random());
    const uint64_t first = random() >> (n % 60);
    gpu::RandomBits bits({&step, stream, first});
    for (int64_t i = 0; i < 11; ++i)
      ASSERT_EQ(bits(i), scalar::random_bits(step.seed, stream, step.step, first + static_cast<uint64_t>(i)));
  }
}

constexpr const char* kScaleSpecs[] = {
    "e2m1:b32:e8m0/floor:rne",       "e4m3:b32:e8m0/ceil:rne",        "e3m2:b32:e8m0/even:rne",
    "int8:b32:e8m0/even:rne",        "e2m3:b32:e8m0/rceil:rne",       "e5m2:b32:e8m0/opt:rne",
    "int4:b16:e8m0/rceil:rne",       "e3m0:b16:e8m0/even:rne",        "e2m1:b16:e4m3/te:rne",
    "e4m3:b16:e4m3/te:rne",          "e2m1:b16:e4m3/exact:rne",       "e5m2:b16:ue5m3/exact:rne",
    "e2m1:b16:e4m3/torchao:rne",     "e2m1:b16:e4m3/modelopt:rne",    "e2m1:b16:e4m3/one:rne",
    "e2m1:b16:e4m3/fouroversix:rne", "e2m1:b16:e4m3/4over6(mse):rne", "e2m1:b16:e4m3/4over6(mae):rne",
    "int8:b16:ue8m0/te:rne",         "e2m1:b16:ue1m7/one:rne",        "e2m1:row:fp32:rne",
    "int8:row:fp32/pow2:rne",        "e4m3:tensor:fp32:rne",          "e2m1b-3f:row:fp32/pow2:rne",
    "e2m1:b32:e8m0:rne+sr34",        "e2m1:b16:e4m3/exact:rne+sr34",
};

/// Positive finite floats: all exponents, corner and random fractions.
std::vector<float> magnitudes() {
  std::mt19937 random(2);
  std::vector<float> a = {std::bit_cast<float>(1u), std::bit_cast<float>(2u), std::bit_cast<float>(0x7FFFFFu)};
  for (uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const uint32_t fraction : {0u, 1u, 0x400000u, 0x7FFFFFu, static_cast<uint32_t>(random()) & 0x7FFFFFu})
      if ((exponent | fraction) != 0) a.push_back(std::bit_cast<float>(exponent << 23 | fraction));
  return a;
}

TEST(GpuScale, gives_the_scales_and_y_of_scalar_under_every_rule_and_profile) {
  std::mt19937 random(8);
  const std::vector<float> a = magnitudes();
  for (const char* text : kScaleSpecs) {
    const QuantSpec spec = parse_quant_spec(text);
    const gpu::Quantizer q = gpu::quantizer_of(spec);
    for (const float amax : a) {
      const float tensor_amax = has_tensor_scale(spec) ? std::max(amax, a[random() % a.size()]) : 0.0f;
      const scalar::TensorScales want =
          has_tensor_scale(spec) ? scalar::tensor_scales(tensor_amax, spec) : scalar::TensorScales{};
      const gpu::TensorScales got = has_tensor_scale(spec) ? gpu::tensor_scales(tensor_amax, q) : gpu::TensorScales{};
      ASSERT_TRUE(same_bits(got.encode, want.encode) && same_bits(got.decode, want.decode)) << text << tensor_amax;
      float scale = 1;
      if (spec.scale == ScaleFormat::fp32) {
        scale = scalar::fp32_scale(amax, spec);
        ASSERT_TRUE(same_bits(gpu::fp32_scale(std::bit_cast<uint32_t>(amax), q), scale)) << text << show_bits(amax);
      } else {
        const scalar::ScaleCandidates c = scalar::scale_candidates(amax, want, spec);
        const gpu::ScaleCandidates g = gpu::scale_candidates(std::bit_cast<uint32_t>(amax), got, q);
        ASSERT_EQ(g.first, c.first) << text << " " << show_bits(amax) << " of " << show_bits(tensor_amax);
        ASSERT_EQ(g.second, c.second) << text << " " << show_bits(amax) << " of " << show_bits(tensor_amax);
        scale = scalar::decode_scale(c.first, spec);
        ASSERT_TRUE(same_bits(gpu::decode_scale(c.first, q), scale)) << text;
      }
      for (const float x : {amax, -amax, amax * 0.37f, 0.0f, -0.0f})
        ASSERT_EQ(std::bit_cast<uint64_t>(gpu::scaled_value(x, scale, got, q)),
                  std::bit_cast<uint64_t>(scalar::scaled_value(x, scale, want, spec)))
            << text << " " << show_bits(x) << " of " << show_bits(amax);
    }
  }
}

TEST(GpuEstimators, give_the_dge_multipliers_of_e2m1_by_the_short_way_as_scalar_does) {
  for (const char* text : {"dge(5,3)", "dge(k=2.5,clip=4,eps=0.1)", "dge(8,3)"}) {
    const Estimator e = parse_estimator(text);
    for (const double y : numbers_for(kE2m1)) {
      if (!(std::fabs(y) <= 6)) continue;
      const auto quick = static_cast<float>(gpu::dge_multiplier_e2m1(y, e, 1.0 / e.k - 1.0));
      ASSERT_TRUE(same_bits(quick, scalar::estimator_multiplier(y, e, kE2m1))) << text << " " << y;
    }
  }
}

TEST(GpuEstimators, give_the_multipliers_and_soft_values_of_scalar) {
  for (const char* name : {"e2m1", "int4", "e3m0", "e4m3"}) {
    const ElementFormat f = parse_quant_spec(std::string(name) + ":row:fp32:rne").element;
    std::vector<double> numbers;
    for (const double y : numbers_for(f))
      if (numbers.size() < 400) numbers.push_back(y);
    for (const char* text :
         {"ste", "ste_clip", "dge(5,3)", "dge(k=2.5,clip=4,eps=0.1)", "soft(20)", "dsq(0.2)", "dsq(0.9)", "quest"})
      for (const double y : numbers) {
        const Estimator e = parse_estimator(text);
        ASSERT_TRUE(same_bits(gpu::estimator_multiplier(y, e, f), scalar::estimator_multiplier(y, e, f)))
            << name << " " << text << " " << y;
      }
    for (const double y : numbers) {
      const auto soft = static_cast<float>(gpu::soft_value(y, 7.5, f));
      ASSERT_TRUE(same_bits(soft, static_cast<float>(scalar::soft_value(y, 7.5, f)))) << name << " " << y;
      for (const float dy : {1.5f, -0.25f, 0.0f})
        ASSERT_TRUE(same_bits(gpu::ewgs_gradient(dy, y, 1.0f, 0.1), scalar::ewgs_gradient(dy, y, 1.0f, 0.1))) << y;
    }
  }
}

}  // namespace
}  // namespace fp4sim::test
