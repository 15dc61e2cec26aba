#include "reference/contract/element_format.h"

#include <cmath>

#include "reference/contract/text_cursor.h"

namespace fp4sim {
namespace {

int default_bias(int exponent_bits) { return exponent_bits == 1 ? 1 : (1 << (exponent_bits - 1)) - 1; }

int digit(TextCursor& cursor, int lowest, int highest, const char* name) {
  for (int value = lowest; value <= highest; ++value)
    if (cursor.accept(std::to_string(value))) return value;
  cursor.fail(std::string(name) + " from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

ElementFormat user_format(TextCursor& cursor) {
  const size_t begin = cursor.position();
  cursor.expect("e", "an element format or alias (`fp4sim formats` lists them) or e{E}m{M}[b{bias}|bauto]f");
  const int e = digit(cursor, 1, 5, "exponent bits E");
  cursor.expect("m", "`m` and the mantissa bits");
  const int m = digit(cursor, 0, 6, "mantissa bits M");
  if (1 + e + m < 3 || 1 + e + m > 8) cursor.fail_at(begin, "a user format has 3 to 8 bits: 1 + E + M");
  int bias = default_bias(e);
  const bool automatic = cursor.accept("bauto");
  if (!automatic && cursor.accept("b")) {
    const size_t bias_begin = cursor.position();
    const BiasRange range = user_bias_range(e, m);
    if (!cursor.accept_number(bias)) cursor.fail("a decimal bias or `auto`");
    if (bias < range.lowest || bias > range.highest)
      cursor.fail_at(bias_begin, "the bias must be from " + std::to_string(range.lowest) + " to " +
                                     std::to_string(range.highest) +
                                     " (max_normal ≤ FLT_MAX, smallest value ≥ 2^-149)");
  }
  cursor.expect("f", "`b` and a bias, or `f` that ends a user format's name");
  return {static_cast<int8_t>(1 + e + m),
          static_cast<int8_t>(e),
          static_cast<int8_t>(m),
          static_cast<int16_t>(bias),
          Encoding::sign_magnitude,
          Specials::none,
          true,
          automatic};
}

}  // namespace

ElementFormat parse_element_format(TextCursor& cursor) {
  const std::string_view word = cursor.peek_word();
  for (const ElementFormatRow& row : kElementFormats) {
    if (word != row.name) continue;
    cursor.accept(word);
    return row.format;
  }
  return user_format(cursor);
}

std::string format_name(const ElementFormat& f) {
  for (const ElementFormatRow& row : kElementFormats)
    if (row.format == f) return row.name;
  std::string name = "e" + std::to_string(f.exponent_bits) + "m" + std::to_string(f.mantissa_bits);
  if (f.bias_auto) {
    name += "bauto";
  } else if (f.bias != default_bias(f.exponent_bits)) {
    name += "b" + std::to_string(f.bias);
  }
  return name + "f";
}

double max_normal_value(const ElementFormat& f) {
  return std::ldexp(static_cast<double>(max_normal_significand(f)), emax(f) - f.mantissa_bits);
}

double min_positive_value(const ElementFormat& f) { return std::ldexp(1.0, min_step_exponent(f)); }

}  // namespace fp4sim
