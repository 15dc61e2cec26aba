// What the codes of a packed operand are worth: tables of at most 256 entries built from the format's row.
#pragma once

#include <cstdint>

#include "reference/contract/quant_spec.h"

namespace fp4sim::simd {

/// 2^e as binary64, e in [−1022, 1023].
double power_of_two(int e);

/// The exact value of a code of any element format (and of scale_element); NaN and Inf where the format has them.
double code_value(const ElementFormat& format, uint32_t code);

/// The largest |value| / smallest step over all codes that can be stored (int8: 128, the code −128 included).
int64_t max_magnitude_steps(const ElementFormat& format);

/// Code `index` of a row of the stored bit string (§4.4). bits ≤ 16.
inline uint32_t code_at(const uint8_t* row, int bits, int64_t index) {
  if (bits == 4) return (row[index / 2] >> (4 * (index & 1))) & 15u;
  if (bits == 8) return row[index];
  const int64_t bit = index * bits;
  const int shift = static_cast<int>(bit & 7);
  uint32_t word = row[bit / 8];
  for (int have = 8 - shift, next = 1; have < bits; have += 8, ++next)
    word |= static_cast<uint32_t>(row[bit / 8 + next]) << (8 * next);
  return (word >> shift) & ((1u << bits) - 1u);
}

/// to[j] = table[code j] for a row of n codes of at most 8 bits.
template <class T>
void look_up(const uint8_t* row, int bits, int64_t n, const T* table, T* to) {
  int64_t j = 0;
  if (bits == 8) {
    for (; j < n; ++j) to[j] = table[row[j]];
  } else if (bits == 6) {
    for (const uint8_t* at = row; j + 4 <= n; j += 4, at += 3) {  // four codes in three bytes
      const uint32_t word = at[0] | static_cast<uint32_t>(at[1]) << 8 | static_cast<uint32_t>(at[2]) << 16;
      to[j] = table[word & 63u], to[j + 1] = table[word >> 6 & 63u];
      to[j + 2] = table[word >> 12 & 63u], to[j + 3] = table[word >> 18];
    }
  }
  for (; j < n; ++j) to[j] = table[code_at(row, bits, j)];
}

/// values[byte] of all 256 scale bytes (§2): e8m0 2^(code−127), 255 NaN; e4m3 and ue their element's values.
void scale_byte_values(const QuantSpec& spec, float (&values)[256]);

}  // namespace fp4sim::simd
