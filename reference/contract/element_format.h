// Element formats (numerics.md §2): one row each, everything else derived from the row.
// This file holds facts only; encoding and decoding live in the backends.
#pragma once

#include <cstdint>
#include <string>

#include "reference/contract/hd.h"

namespace fp4sim {

enum class Encoding : uint8_t { sign_magnitude, twos_complement };

/// Codes beyond max_normal: none (OCP FP4/FP6, integers), nan_only (OFP8 E4M3: S.1111.111), ieee (Inf and NaN).
enum class Specials : uint8_t { none, nan_only, ieee };

/// One element format. Plain data, usable in device code and in ISA-specific units.
struct ElementFormat {
  int8_t bits;           // storage width of a code
  int8_t exponent_bits;  // E (0 for integers)
  int8_t mantissa_bits;  // M (fraction bits for integers)
  int16_t bias;          // exponent bias (0 for integers)
  Encoding encoding;
  Specials specials;
  bool user;       // spelled e{E}m{M}[b{bias}]f
  bool bias_auto;  // `bauto`: the bias is chosen per tensor

  friend bool operator==(const ElementFormat&, const ElementFormat&) = default;
};

/// The largest finite code without its sign bit (numerics.md §2; int8 127, e4m3 0x7E, e2m1 0x7).
FP4SIM_HD uint32_t max_normal_code(const ElementFormat& f) {
  const uint32_t all = (1u << (f.bits - 1)) - 1u;
  if (f.specials == Specials::nan_only) return all - 1u;
  if (f.specials == Specials::ieee) return all - (1u << f.mantissa_bits);
  return all;
}

/// The canonical NaN code, or 0 where the format has none (check `specials` first).
FP4SIM_HD uint32_t nan_code(const ElementFormat& f) {
  const uint32_t all = (1u << (f.bits - 1)) - 1u;
  if (f.specials == Specials::nan_only) return all;
  // the quiet NaN: exponent all ones, top mantissa bit (e5m2 0x7E, fp16 0x7E00, bf16 0x7FC0)
  if (f.specials == Specials::ieee) return all & ~((1u << (f.mantissa_bits - 1)) - 1u);
  return 0;
}

/// The +Inf code; meaningful only for Specials::ieee.
FP4SIM_HD uint32_t inf_code(const ElementFormat& f) { return max_normal_code(f) + 1u; }

/// Exponent of the smallest normal value (the exponent of the subnormal grid too).
FP4SIM_HD int emin(const ElementFormat& f) { return f.encoding == Encoding::twos_complement ? 0 : 1 - f.bias; }

/// log2 of the distance between neighbours in the subnormal range: emin − M; −M for integers.
/// With M = 0 there are no subnormals and the smallest positive value is 2^emin.
FP4SIM_HD int min_step_exponent(const ElementFormat& f) { return emin(f) - f.mantissa_bits; }

/// The exponent of max_normal (OCP MX: emax; e2m1 2, e4m3 8, int8 0).
FP4SIM_HD int emax(const ElementFormat& f) {
  if (f.encoding == Encoding::twos_complement) return 0;
  return static_cast<int>(max_normal_code(f) >> f.mantissa_bits) - f.bias;
}

/// max_normal as an integer significand: max_normal = significand · 2^(emax − M) (int8: 127 · 2^-6).
FP4SIM_HD int64_t max_normal_significand(const ElementFormat& f) {
  const uint32_t code = max_normal_code(f);
  if (f.encoding == Encoding::twos_complement) return static_cast<int64_t>(code);
  return static_cast<int64_t>(code & ((1u << f.mantissa_bits) - 1u)) + (int64_t{1} << f.mantissa_bits);
}

/// w of numerics.md §7: bit length of the integer max_normal / smallest step (e2m1 4, e4m3 18, e5m2 32).
FP4SIM_HD int significand_span_bits(const ElementFormat& f) {
  int bits = 0;
  for (int64_t s = max_normal_significand(f); s != 0; s >>= 1) ++bits;
  if (f.encoding == Encoding::twos_complement) return bits;
  return bits + (emax(f) - emin(f));
}

FP4SIM_HD bool is_identity_f32(const ElementFormat& f) { return f.bits == 32; }

// The built-in rows: bits, E, M, bias, encoding, specials.
inline constexpr ElementFormat kE2m1{4, 2, 1, 1, Encoding::sign_magnitude, Specials::none, false, false};
inline constexpr ElementFormat kE1m2{4, 1, 2, 1, Encoding::sign_magnitude, Specials::none, false, false};
inline constexpr ElementFormat kE3m0{4, 3, 0, 3, Encoding::sign_magnitude, Specials::none, false, false};
inline constexpr ElementFormat kE2m3{6, 2, 3, 1, Encoding::sign_magnitude, Specials::none, false, false};
inline constexpr ElementFormat kE3m2{6, 3, 2, 3, Encoding::sign_magnitude, Specials::none, false, false};
inline constexpr ElementFormat kE4m3{8, 4, 3, 7, Encoding::sign_magnitude, Specials::nan_only, false, false};
inline constexpr ElementFormat kE5m2{8, 5, 2, 15, Encoding::sign_magnitude, Specials::ieee, false, false};
inline constexpr ElementFormat kInt8{8, 0, 6, 0, Encoding::twos_complement, Specials::none, false, false};
inline constexpr ElementFormat kInt4{4, 0, 2, 0, Encoding::twos_complement, Specials::none, false, false};
inline constexpr ElementFormat kBf16{16, 8, 7, 127, Encoding::sign_magnitude, Specials::ieee, false, false};
inline constexpr ElementFormat kFp16{16, 5, 10, 15, Encoding::sign_magnitude, Specials::ieee, false, false};
inline constexpr ElementFormat kFp32{32, 8, 23, 127, Encoding::sign_magnitude, Specials::ieee, false, false};

struct ElementFormatRow {
  const char* name;
  ElementFormat format;
  const char* notes;
};

inline constexpr ElementFormatRow kElementFormats[] = {
    {"e2m1", kE2m1, "FP4, OCP MX v1.0"},
    {"e1m2", kE1m2, "uniform grid"},
    {"e3m0", kE3m0, "powers of two and 0"},
    {"e2m3", kE2m3, "FP6, OCP MX v1.0"},
    {"e3m2", kE3m2, "FP6, OCP MX v1.0"},
    {"e4m3", kE4m3, "FP8, OFP8: NaN, no Inf"},
    {"e5m2", kE5m2, "FP8, OFP8: Inf and NaN"},
    {"int8", kInt8, "OCP MX v1.0, symmetric"},
    {"int4", kInt4, "symmetric"},
    {"bf16", kBf16, "bfloat16"},
    {"fp16", kFp16, "IEEE 754 binary16"},
    {"fp32", kFp32, "IEEE 754 binary32, identity"},
};

/// Least and greatest bias of a user format (§2): max_normal ≤ FLT_MAX, smallest positive value ≥ 2^-149.
struct BiasRange {
  int lowest, highest;
};
FP4SIM_HD BiasRange user_bias_range(int exponent_bits, int mantissa_bits) {
  return {(1 << exponent_bits) - 128, 150 - mantissa_bits};
}

/// The format with another bias: that of a `bauto` tensor, stored beside its codes.
FP4SIM_HD ElementFormat with_bias(ElementFormat f, int bias) {
  f.bias = static_cast<int16_t>(bias);
  f.bias_auto = false;
  return f;
}

class TextCursor;

/// The format whose name comes next, consumed: a row's name or e{E}m{M}[b{bias}|bauto]f. UsageError with the column.
ElementFormat parse_element_format(TextCursor& cursor);

/// The format's spelling: a row's name, or e{E}m{M}[b{bias}|bauto]f for user formats.
std::string format_name(const ElementFormat& f);

/// The exact value max_normal; exact in binary64 for every format.
double max_normal_value(const ElementFormat& f);

/// The smallest positive value (min_subnormal; 2^emin where M = 0).
double min_positive_value(const ElementFormat& f);

}  // namespace fp4sim
