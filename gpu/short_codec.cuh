// Codes of binary32 numbers and back in 32-bit arithmetic, for the fused kernels: the bits of codec.cuh for formats of
// at most 16 bits, round to nearest even or sr32. What depends on the format is computed once on the host.
#pragma once

#include "gpu/codec.cuh"

namespace fp4sim::gpu {

/// A Codec prepared for binary32 numbers.
struct ShortCodec {
  int bits;
  int mantissa_bits;
  int least_exponent;          // emin
  int drop;                    // fraction bits of binary32 that a code has not got
  uint32_t base;               // bits that lie below those of 2^emin by one binade: code 0 of a grid without subnormals
  uint32_t normal;             // bits of 2^emin; integers: none is so large
  float magic;                 // its last place is the step of the subnormal grid
  uint32_t limit;              // magnitudes above count as this one
  uint32_t max_code;           // of max_normal
  uint32_t overflow_positive;  // codes of numbers beyond max_normal
  uint32_t overflow_negative;
  uint32_t nan;
  uint32_t sign_bit;
  bool integer;
};

/// True if short_codec_of gives the codes of `c` for every binary32 number.
inline bool short_codec_takes(const Codec& c) {
  const ElementFormat& f = c.format;
  const bool rounding = c.rounding == Rounding::rne || c.rounding == Rounding::sr32;
  return rounding && !f.bias_auto && f.bits <= 16 && f.mantissa_bits <= 14 && emin(f) >= -126 &&
         min_step_exponent(f) <= 100;
}

/// True if numbers below binary32's normal range round to zero, so that y may lose bits there before it is rounded.
inline bool rounds_subnormals_to_zero(const ElementFormat& f) { return min_step_exponent(f) >= -90; }

/// The prepared form of a codec that short_codec_takes. Host only.
inline ShortCodec short_codec_of(const Codec& c) {
  const ElementFormat& f = c.format;
  const bool integer = f.encoding == Encoding::twos_complement;
  ShortCodec s{};
  s.bits = f.bits;
  s.mantissa_bits = f.mantissa_bits;
  s.least_exponent = emin(f);
  s.drop = 23 - f.mantissa_bits;
  s.base = static_cast<uint32_t>(emin(f) + 126) << 23;
  s.normal = integer ? 0xFFFFFFFFu : bits_of(pow2_f32(emin(f)));
  s.magic = pow2_f32(min_step_exponent(f) + 23);
  s.limit = integer ? bits_of(pow2_f32(1)) : kF32Inf;
  s.max_code = max_normal_code(f);
  s.overflow_positive = overflow_code(false, false, c);
  s.overflow_negative = overflow_code(true, false, c);
  s.nan = f.specials == Specials::none ? max_normal_code(f) : nan_code(f);
  s.sign_bit = 1u << (f.bits - 1);
  s.integer = integer;
  return s;
}

/// The code of a rounded magnitude with the sign of y.
FP4SIM_HD uint32_t finish_short(uint32_t magnitude, float y, const ShortCodec& c) {
  const bool negative = (bits_of(y) & kF32SignBit) != 0;
  if (magnitude > c.max_code) return negative ? c.overflow_negative : c.overflow_positive;
  if (!negative) return magnitude;
  return c.integer ? (0u - magnitude) & (c.sign_bit | (c.sign_bit - 1u)) : magnitude | c.sign_bit;
}

/// The code nearest to y, ties to the even code.
FP4SIM_HD uint32_t encode_short_rne(float y, const ShortCodec& c) {
  const uint32_t exact = magnitude_bits(y), magnitude = exact < c.limit ? exact : c.limit;
  if (exact > kF32Inf) return c.nan;
  const uint32_t above = magnitude - c.base;
  const uint32_t normal = (above + ((1u << (c.drop - 1)) - 1u) + ((above >> c.drop) & 1u)) >> c.drop;
  const uint32_t small = bits_of(float_of(magnitude) + c.magic) - bits_of(c.magic);  // this sum rounds to the grid
  return finish_short(magnitude >= c.normal ? normal : small, y, c);
}

/// The code of a finite y by sr32: up if `random` lies below the 32 bits that follow the lower code (§3).
FP4SIM_HD uint32_t encode_short_sr32(float y, uint32_t random, const ShortCodec& c) {
  const uint32_t exact = magnitude_bits(y), magnitude = exact < c.limit ? exact : c.limit;
  const uint32_t field = magnitude >> 23, fraction = magnitude & 0x7FFFFFu;
  const int exponent = (field != 0 ? static_cast<int>(field) : 1) - 127;
  const uint32_t significand = field != 0 ? fraction | 0x800000u : fraction;  // |y| = significand·2^(exponent − 23)
  const int above = !c.integer && exponent > c.least_exponent ? exponent - c.least_exponent : 0;
  const int shift = c.least_exponent + above - exponent + c.drop;  // of the significand to steps of the grid at y
  const uint32_t steps = shift < 24 ? significand >> shift : 0;
  const uint32_t rest = shift < 24 ? significand & ((1u << shift) - 1u) : significand;
  const uint32_t threshold =
      shift <= 32 ? static_cast<uint32_t>(uint64_t{rest} << (32 - shift)) : (shift < 56 ? rest >> (shift - 32) : 0);
  const uint32_t lower = (static_cast<uint32_t>(above) << c.mantissa_bits) + steps;
  return finish_short(lower + (random < threshold ? 1u : 0u), y, c);
}

/// A format prepared for decoding.
struct ShortDecoder {
  int bits;
  int drop;
  float factor;  // of the code's bits read as binary32 bits; the step of integers
  uint32_t max_code;
  uint32_t infinity;  // its code; no code where the format has none
  bool integer;
};

/// True if short_decoder_of takes a format.
inline bool short_decoder_takes(const ElementFormat& f) {
  if (f.bias_auto || f.bits > 16) return false;
  if (f.encoding == Encoding::twos_complement) return true;
  return f.bias >= 0 && f.bias <= 253 && (f.exponent_bits < 8 || f.specials == Specials::ieee);
}

/// The prepared form of a format. Host only.
inline ShortDecoder short_decoder_of(const ElementFormat& f) {
  const bool integer = f.encoding == Encoding::twos_complement;
  return {f.bits,
          23 - f.mantissa_bits,
          integer ? pow2_f32(min_step_exponent(f)) : pow2_f32(127 - f.bias),
          max_normal_code(f),
          f.specials == Specials::ieee ? inf_code(f) : ~0u,
          integer};
}

/// The value of a code, exact; NaN codes give the canonical NaN.
FP4SIM_HD float decode_short(uint32_t code, const ShortDecoder& d) {
  const uint32_t sign_bit = 1u << (d.bits - 1);
  if (d.integer) return static_cast<float>(static_cast<int>(code ^ sign_bit) - static_cast<int>(sign_bit)) * d.factor;
  const uint32_t magnitude = code & (sign_bit - 1u), sign = (code & sign_bit) != 0 ? kF32SignBit : 0;
  if (magnitude > d.max_code) return magnitude == d.infinity ? float_of(sign | kF32Inf) : canonical_nan();
  return float_of(sign | bits_of(float_of(magnitude << d.drop) * d.factor));
}

}  // namespace fp4sim::gpu
