#include "reference/simd/code_values.h"

#include <bit>
#include <limits>

namespace fp4sim::simd {

double power_of_two(int e) { return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52); }

double code_value(const ElementFormat& f, uint32_t code) {
  const uint32_t sign_bit = 1u << (f.bits - 1);
  if (f.encoding == Encoding::twos_complement) {
    const auto value = static_cast<int32_t>(code & (sign_bit - 1u)) - static_cast<int32_t>(code & sign_bit);
    return value * power_of_two(min_step_exponent(f));
  }
  const uint32_t magnitude = code & (sign_bit - 1u);
  const double sign = (code & sign_bit) != 0 ? -1.0 : 1.0;
  if (magnitude > max_normal_code(f)) {
    const bool infinite = f.specials == Specials::ieee && magnitude == inf_code(f);
    return infinite ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const auto exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const auto fraction = static_cast<double>(magnitude & ((1u << f.mantissa_bits) - 1u));
  if (exponent == 0) return sign * fraction * power_of_two(min_step_exponent(f));
  return sign * (fraction + static_cast<double>(1u << f.mantissa_bits)) *
         power_of_two(min_step_exponent(f) + exponent - 1);
}

int64_t max_magnitude_steps(const ElementFormat& f) {
  if (f.encoding == Encoding::twos_complement) return int64_t{1} << (f.bits - 1);
  return max_normal_significand(f) << (emax(f) - emin(f));
}

void scale_byte_values(const QuantSpec& spec, float (&values)[256]) {
  if (spec.scale == ScaleFormat::e8m0) {
    for (int code = 0; code < 255; ++code) values[code] = static_cast<float>(power_of_two(code - 127));
    values[255] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const ElementFormat element = scale_element(spec);
  for (uint32_t code = 0; code < 256; ++code) values[code] = static_cast<float>(code_value(element, code));
}

}  // namespace fp4sim::simd
