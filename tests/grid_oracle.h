// A second, independent encoder: a search in the table of a format's values, compared exactly in binary64 and long
// double. It shares the format's row with the code under test and nothing else.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/contract/element_format.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::test {

/// The finite magnitudes of a format in code order, written from the definition, and the next value of the grid
/// continued beyond them.
struct GridTable {
  std::vector<double> values;
  double continued = 0;
};

inline GridTable grid_table(const ElementFormat& f) {
  GridTable table;
  const int m = f.mantissa_bits;
  if (f.encoding == Encoding::twos_complement) {
    for (int i = 0; i < (1 << (f.bits - 1)); ++i) table.values.push_back(std::ldexp(i, -m));
    table.continued = std::ldexp(1 << (f.bits - 1), -m);
    return table;
  }
  for (int field = 0; field < (1 << f.exponent_bits); ++field)
    for (int fraction = 0; fraction < (1 << m); ++fraction)
      table.values.push_back(field == 0 ? std::ldexp(fraction, 1 - f.bias - m)
                                        : std::ldexp((1 << m) + fraction, field - f.bias - m));
  table.continued = std::ldexp(1.0, (1 << f.exponent_bits) - f.bias);
  // Codes that hold NaN or Inf are not finite values; the first of them continues the grid.
  const size_t specials = f.specials == Specials::ieee ? size_t{1} << m : f.specials == Specials::nan_only ? 1 : 0;
  if (specials > 0) table.continued = table.values[table.values.size() - specials];
  table.values.resize(table.values.size() - specials);
  return table;
}

/// §2 and §3 by search. `random` as for encode.
inline uint32_t search_code(double y, const ElementFormat& f, const GridTable& table, Rounding rounding, bool ieee,
                            uint32_t random) {
  const auto top = static_cast<uint32_t>(table.values.size()) - 1;
  const bool negative = std::signbit(y);
  const auto signed_code = [&](uint32_t code) -> uint32_t {
    if (!negative) return code;
    if (f.encoding == Encoding::twos_complement) return code == 0 ? 0 : (1u << f.bits) - code;
    return code + (1u << (f.bits - 1));
  };
  const uint32_t nan = f.specials == Specials::none       ? top
                       : f.specials == Specials::nan_only ? top + 1
                                                          : top + 1 + (1u << (f.mantissa_bits - 1));
  if (std::isnan(y)) return nan;
  const double a = std::fabs(y);
  const bool stochastic = rounding == Rounding::sr32 || rounding == Rounding::sr8;
  const bool inward = rounding == Rounding::rtz || (rounding == Rounding::rtp && negative) ||
                      (rounding == Rounding::rtn && !negative) || stochastic;
  const uint32_t beyond = f.specials == Specials::nan_only ? nan : signed_code(top + 1);
  const uint32_t overflow = !ieee || (inward && std::isfinite(y)) ? signed_code(top) : beyond;
  if (a >= table.continued || (stochastic && a >= table.values[top])) return overflow;

  const auto above = std::upper_bound(table.values.begin(), table.values.end(), a);
  const auto lo = static_cast<uint32_t>(above - table.values.begin()) - 1;
  const long double low = table.values[lo];
  const long double high = lo == top ? table.continued : table.values[lo + 1];
  const long double twice = 2 * static_cast<long double>(a), sum = low + high;
  const long double fraction = (static_cast<long double>(a) - low) / (high - low);
  bool up = false;
  switch (rounding) {
    case Rounding::rne: up = twice > sum || (twice == sum && lo % 2 == 1); break;
    case Rounding::rna: up = twice >= sum; break;
    case Rounding::rnz: up = twice > sum; break;
    case Rounding::rnu: up = negative ? twice > sum : twice >= sum; break;
    case Rounding::rtz: up = false; break;
    case Rounding::rtp: up = !negative && a > low; break;
    case Rounding::rtn: up = negative && a > low; break;
    case Rounding::sr32: up = random < std::floor(fraction * 4294967296.0L); break;
    case Rounding::sr8: up = random % 256 < std::floor(fraction * 256.0L); break;
  }
  const uint32_t code = lo + (up ? 1 : 0);
  return code > top ? overflow : signed_code(code);
}

}  // namespace fp4sim::test
