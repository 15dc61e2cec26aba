// Comparison by bits (numerics.md §1): equal bits, or both NaN.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace fp4sim::test {

inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// "0x1.8p+1 (40400000)".
inline std::string show_bits(float x) {
  char text[64];
  std::snprintf(text, sizeof text, "%a (%08X)", static_cast<double>(x), std::bit_cast<uint32_t>(x));
  return text;
}

/// Success, or the first element that differs.
inline testing::AssertionResult same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size())
    return testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (!same_bits(got[i], want[i]))
      return testing::AssertionFailure() << "element " << i << ": " << show_bits(got[i]) << ", expected "
                                         << show_bits(want[i]);
  }
  return testing::AssertionSuccess();
}

}  // namespace fp4sim::test
