#include "reference/scalar/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"

namespace fp4sim::scalar {
namespace {

using Wide = unsigned __int128;  // significand·2^32 of the stochastic rules needs 85 bits

/// |y| = significand·2^exponent, significand in [2^52, 2^53).
struct Magnitude {
  uint64_t significand;
  int exponent;
};

Magnitude magnitude_of(double y) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(y), &exponent);  // exact; fraction in [0.5, 1)
  return {static_cast<uint64_t>(std::ldexp(fraction, 53)), exponent - 53};
}

/// log2 of the grid step at a magnitude whose leading bit has weight 2^leading.
int step_exponent(int leading, const ElementFormat& f) {
  if (f.encoding == Encoding::twos_complement) return min_step_exponent(f);
  return std::max(leading, emin(f)) - f.mantissa_bits;
}

/// Position of |y| between two neighbouring codes: lo + part/unit, 0 ≤ part < unit = 2^shift.
struct Position {
  uint64_t lo;
  Wide part;
  int shift;
};

Position position_of(const Magnitude& m, const ElementFormat& f) {
  const int leading = m.exponent + 52;
  const int step = step_exponent(leading, f);
  // Steps of 2^100 and more above the last bit of y round, compare and count alike: y is below one part in 2^47.
  const int shift = std::min(step - m.exponent, 100);
  const auto steps = static_cast<uint64_t>(static_cast<Wide>(m.significand) >> shift);
  // Codes of one binade follow those of the binade below it: 2^M codes each, `steps` counted from zero.
  const bool subnormal_grid = f.encoding == Encoding::twos_complement || leading <= emin(f);
  const uint64_t below = subnormal_grid ? 0 : static_cast<uint64_t>(leading - emin(f)) << f.mantissa_bits;
  const Wide part = static_cast<Wide>(m.significand) & ((static_cast<Wide>(1) << shift) - 1);
  return {below + steps, part, shift};
}

/// True if the magnitude goes to the higher neighbour (§3, one line a rule).
bool rounds_up(const Position& p, Rounding rounding, bool negative, uint32_t random) {
  const Wide half = static_cast<Wide>(1) << (p.shift - 1);
  switch (rounding) {
    case Rounding::rne: return p.part > half || (p.part == half && (p.lo & 1) != 0);
    case Rounding::rna: return p.part >= half;
    case Rounding::rnz: return p.part > half;
    case Rounding::rnu: return p.part > half || (p.part == half && !negative);
    case Rounding::rtz: return false;
    case Rounding::rtp: return p.part != 0 && !negative;
    case Rounding::rtn: return p.part != 0 && negative;
    case Rounding::sr32: return random < ((p.part << 32) >> p.shift);
    case Rounding::sr8: return (random & 0xFFu) < ((p.part << 8) >> p.shift);
  }
  throw Error("unreachable rounding");
}

uint32_t with_sign(uint64_t magnitude, bool negative, const ElementFormat& f) {
  const auto m = static_cast<uint32_t>(magnitude);
  if (!negative) return m;
  if (f.encoding == Encoding::twos_complement) return (0u - m) & ((1u << f.bits) - 1u);
  return m | (1u << (f.bits - 1));
}

/// The code of a result beyond max_normal (§2 encode). `finite` tells whether y itself was finite.
uint32_t overflow_code(bool negative, bool finite, const ElementFormat& f, Rounding rounding, bool ieee) {
  const bool toward_zero =
      rounding == Rounding::rtz || (rounding == Rounding::rtp && negative) || (rounding == Rounding::rtn && !negative);
  if (!ieee || (finite && (toward_zero || is_stochastic(rounding)))) return with_sign(max_normal_code(f), negative, f);
  if (f.specials == Specials::ieee) return with_sign(inf_code(f), negative, f);
  if (f.specials == Specials::nan_only) return nan_code(f);
  throw Error("policy ieee needs a format with NaN or Inf");
}

/// Calls visit(row of codes, matrix, row, col, row-major index) for every element of a packed tensor.
template <class Visit>
void for_each_element(const Tensor& packed, const Visit& visit) {
  const MatrixView m = matrix_view(packed.type.shape);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row)
      for (int64_t col = 0; col < m.cols; ++col)
        visit(code_row(packed, matrix * m.rows + row), matrix, row, col, (matrix * m.rows + row) * m.cols + col);
}

}  // namespace

uint32_t encode_value(double y, const ElementFormat& format, Rounding rounding, bool ieee, uint32_t random) {
  if (std::isnan(y)) return format.specials == Specials::none ? max_normal_code(format) : nan_code(format);
  const bool negative = std::signbit(y);
  if (std::isinf(y)) return overflow_code(negative, false, format, rounding, ieee);
  if (y == 0) return with_sign(0, negative, format);

  const Magnitude m = magnitude_of(y);
  // 2^(emax+1) is on the continued grid, so every rounding of a larger magnitude exceeds max_normal.
  if (m.exponent + 52 > emax(format)) return overflow_code(negative, true, format, rounding, ieee);
  const Position p = position_of(m, format);
  const uint64_t code = p.lo + (rounds_up(p, rounding, negative, random) ? 1 : 0);
  const bool stochastic_top = is_stochastic(rounding) && p.lo >= max_normal_code(format);
  if (code > max_normal_code(format) || stochastic_top) return overflow_code(negative, true, format, rounding, ieee);
  return with_sign(code, negative, format);
}

double grid_value(int64_t index, const ElementFormat& format) {
  const auto code = static_cast<uint32_t>(index < 0 ? -index : index);
  const double magnitude = static_cast<double>(decode_code(code, format));
  return index < 0 ? -magnitude : magnitude;
}

float decode_code(uint32_t code, const ElementFormat& f) {
  if (f.encoding == Encoding::twos_complement) {
    const auto sign_weight = int64_t{1} << (f.bits - 1);
    const int64_t value = (code & (sign_weight - 1)) - (code & sign_weight);
    return std::ldexp(static_cast<float>(value), min_step_exponent(f));
  }
  const uint32_t sign_bit = 1u << (f.bits - 1);
  const uint32_t magnitude = code & (sign_bit - 1u);
  const float sign = (code & sign_bit) != 0 ? -1.0f : 1.0f;
  if (magnitude > max_normal_code(f)) {
    const bool infinite = f.specials == Specials::ieee && magnitude == inf_code(f);
    return infinite ? sign * std::numeric_limits<float>::infinity() : std::bit_cast<float>(kF32CanonicalNaN);
  }
  const uint32_t field = magnitude >> f.mantissa_bits;
  const uint32_t fraction = magnitude & ((1u << f.mantissa_bits) - 1u);
  const uint32_t significand = field == 0 ? fraction : fraction + (1u << f.mantissa_bits);
  const int exponent = field == 0 ? min_step_exponent(f) : static_cast<int>(field) - f.bias - f.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(significand), exponent);  // exact
}

uint32_t load_code(const uint8_t* row, int64_t index, int bits) {
  uint32_t code = 0;
  for (int b = 0; b < bits; ++b) {
    const int64_t position = index * bits + b;
    code |= static_cast<uint32_t>((row[position / 8] >> (position % 8)) & 1) << b;
  }
  return code;
}

void store_code(uint8_t* row, int64_t index, int bits, uint32_t code) {
  for (int b = 0; b < bits; ++b) {
    const int64_t position = index * bits + b;
    const auto mask = static_cast<uint8_t>(1u << (position % 8));
    const bool set = ((code >> b) & 1u) != 0;
    row[position / 8] = static_cast<uint8_t>(set ? row[position / 8] | mask : row[position / 8] & ~mask);
  }
}

float decode_scale(uint8_t code, const QuantSpec& spec) {
  if (spec.scale != ScaleFormat::e8m0) return decode_code(code, scale_element(spec));
  return code == 0xFF ? std::bit_cast<float>(kF32CanonicalNaN) : std::ldexp(1.0f, code - 127);
}

float scale_value(const Tensor& packed, int64_t index) {
  const QuantSpec& spec = packed.type.spec;
  if (is_unscaled(spec)) return 1.0f;
  if (spec.scale == ScaleFormat::fp32) return in_data<float>(packed, 1)[index];
  return decode_scale(in_data<uint8_t>(packed, 1)[index], spec);
}

float tensor_scale(const Tensor& packed) {
  return has_tensor_scale(packed.type.spec) ? *in_data<float>(packed, 2) : 1.0f;
}

int64_t scale_index(const ScaleGrid& grid, int64_t matrix, int64_t row, int64_t col) {
  // A grid of one scale for several matrices (granularity tensor) has one scale matrix.
  const int64_t scale_matrix = grid.matrices == 1 ? 0 : matrix;
  return (scale_matrix * grid.rows + row / grid.row_step) * grid.cols + col / grid.col_step;
}

const uint8_t* code_row(const Tensor& packed, int64_t row) {
  return in_data<uint8_t>(packed) + row * code_row_bytes(packed.type);
}

void decode_elements(const Tensor& packed, float* out) {
  const ElementFormat format = element_of(packed);
  for_each_element(packed, [&](const uint8_t* codes, int64_t, int64_t, int64_t col, int64_t i) {
    out[i] = decode_code(load_code(codes, col, format.bits), format);
  });
}

void decode_packed(const Tensor& packed, float* out) {
  decode_elements(packed, out);
  if (is_unscaled(packed.type.spec)) return;
  const ScaleGrid grid = scale_grid(packed.type);
  const bool two_level = has_tensor_scale(packed.type.spec);
  const float d = tensor_scale(packed);
  for_each_element(packed, [&](const uint8_t*, int64_t matrix, int64_t row, int64_t col, int64_t i) {
    out[i] = out[i] * scale_value(packed, scale_index(grid, matrix, row, col));
    if (two_level) out[i] = out[i] * d;
  });
}

}  // namespace fp4sim::scalar
