// One value to one code and back (numerics.md §2, §3), by integer arithmetic on the bits of a binary64 number.
// Generic over the format's row; codes in rows of bytes are in packing.cuh.
#pragma once

#include "gpu/bits.cuh"
#include "reference/contract/element_format.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::gpu {

/// How a real number becomes a code: the format, the rounding rule and the policy beyond max_normal.
struct Codec {
  ElementFormat format;
  Rounding rounding;
  bool ieee;  // policy `ieee` instead of `saturate`
};

/// The code of a magnitude with a sign; −0 of two's complement is code 0.
FP4SIM_HD uint32_t signed_code(uint32_t magnitude, bool negative, const ElementFormat& f) {
  if (!negative) return magnitude;
  const uint32_t sign_bit = 1u << (f.bits - 1);
  if (f.encoding == Encoding::sign_magnitude) return magnitude | sign_bit;
  return (0u - magnitude) & (sign_bit | (sign_bit - 1u));
}

/// The code of a number beyond max_normal (§2): `infinite` tells whether it was infinite before rounding.
FP4SIM_HD uint32_t overflow_code(bool negative, bool infinite, const Codec& c) {
  const ElementFormat& f = c.format;
  const bool toward_zero = c.rounding == Rounding::rtz || c.rounding == (negative ? Rounding::rtp : Rounding::rtn) ||
                           is_stochastic(c.rounding);
  if (!c.ieee || (!infinite && toward_zero)) return signed_code(max_normal_code(f), negative, f);
  return f.specials == Specials::nan_only ? nan_code(f) : signed_code(inf_code(f), negative, f);
}

/// True if a magnitude between two codes goes to the upper one. `rest` of 2^shift is its distance from the lower one,
/// 29 ≤ shift ≤ 96; rest < 2^53, so that from shift 54 on it lies below the half.
FP4SIM_HD bool goes_up(uint64_t rest, int shift, bool lower_is_odd, bool negative, Rounding rounding, uint32_t random) {
  const uint64_t half = shift <= 54 ? uint64_t{1} << (shift - 1) : uint64_t{1} << 54;
  switch (rounding) {
    case Rounding::rne: return rest > half || (rest == half && lower_is_odd);
    case Rounding::rna: return rest >= half;
    case Rounding::rnz: return rest > half;
    case Rounding::rnu: return rest > half || (rest == half && !negative);
    case Rounding::rtz: return false;
    case Rounding::rtp: return rest != 0 && !negative;
    case Rounding::rtn: return rest != 0 && negative;
    case Rounding::sr32: {
      const int drop = shift - 32;  // F = floor(2^32·rest/2^shift)
      const uint64_t threshold = drop >= 64 ? 0 : drop >= 0 ? rest >> drop : rest << -drop;
      return random < threshold;
    }
    case Rounding::sr8: {
      const int drop = shift - 8;
      return (random & 0xFFu) < (drop >= 64 ? 0 : rest >> drop);
    }
  }
  return false;
}

/// The code of the real number y, which binary64 holds exactly. `random`: the element's 32 random bits (sr32, sr8).
FP4SIM_HD uint32_t encode(double y, const Codec& c, uint32_t random = 0) {
  const ElementFormat& f = c.format;
  const uint64_t bits = bits_of(y), magnitude = bits & ~(uint64_t{1} << 63);
  const bool negative = (bits >> 63) != 0;
  constexpr uint64_t kInfinity = uint64_t{0x7FF} << 52;
  if (magnitude > kInfinity) return f.specials == Specials::none ? max_normal_code(f) : nan_code(f);
  if (magnitude == kInfinity) return overflow_code(negative, true, c);
  if (magnitude == 0) return signed_code(0, negative, f);

  // |y| = significand·2^(leading − 52), significand in [2^52, 2^53).
  int leading = static_cast<int>(magnitude >> 52) - 1023;
  uint64_t significand = (magnitude & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  if (leading == -1023) {  // subnormal binary64
    const int up = leading_zeros(magnitude) - 11;
    leading = -1022 - up;
    significand = magnitude << up;
  }
  if (leading > emax(f)) return overflow_code(negative, false, c);  // 2^(emax+1) is on the continued grid

  // Steps of the grid at y, counted from the start of its binade; each binade below holds 2^M codes.
  const bool integer = f.encoding == Encoding::twos_complement;
  const int least_exponent = emin(f);
  const int above = integer || leading < least_exponent ? 0 : leading - least_exponent;
  const int wide_shift = least_exponent + above - f.mantissa_bits - (leading - 52);
  const int shift = wide_shift < 96 ? wide_shift : 96;  // further down every rule decides alike
  const uint64_t steps = shift < 64 ? significand >> shift : 0;
  const uint64_t rest = shift < 64 ? significand & ((uint64_t{1} << shift) - 1) : significand;
  const uint32_t lower = (static_cast<uint32_t>(above) << f.mantissa_bits) + static_cast<uint32_t>(steps);
  const uint32_t code = lower + (goes_up(rest, shift, (lower & 1u) != 0, negative, c.rounding, random) ? 1u : 0u);
  if (code > max_normal_code(f)) return overflow_code(negative, false, c);
  return signed_code(code, negative, f);
}

/// The value of a code, exact in binary32; NaN codes give the canonical NaN.
FP4SIM_HD float decode(uint32_t code, const ElementFormat& f) {
  const uint32_t sign_bit = 1u << (f.bits - 1);
  if (f.encoding == Encoding::twos_complement) {
    const int value = static_cast<int>(code & (sign_bit - 1u)) - static_cast<int>(code & sign_bit);
    return static_cast<float>(value) * pow2_f32(min_step_exponent(f));
  }
  const uint32_t sign = (code & sign_bit) != 0 ? kF32SignBit : 0, magnitude = code & (sign_bit - 1u);
  if (magnitude > max_normal_code(f)) {
    const bool infinite = f.specials == Specials::ieee && magnitude == inf_code(f);
    return infinite ? float_of(sign | kF32Inf) : canonical_nan();
  }
  const uint32_t field = magnitude >> f.mantissa_bits, implicit = field != 0 ? 1u << f.mantissa_bits : 0;
  const uint32_t significand = (magnitude & ((1u << f.mantissa_bits) - 1u)) | implicit;
  const int exponent = min_step_exponent(f) + (field != 0 ? static_cast<int>(field) - 1 : 0);
  return float_of(sign | bits_of(static_cast<float>(significand) * pow2_f32(exponent)));
}

/// max_normal of a format, exact.
FP4SIM_HD float max_normal(const ElementFormat& f) { return decode(max_normal_code(f), f); }

/// Number `index` of the grid values in ascending order, −max_normal_code … max_normal_code; 0 is zero.
FP4SIM_HD double grid_value(int index, const ElementFormat& f) {
  const double magnitude = static_cast<double>(decode(static_cast<uint32_t>(index < 0 ? -index : index), f));
  return index < 0 ? -magnitude : magnitude;
}

}  // namespace fp4sim::gpu
