// Codes of any width and their little-endian bit string (numerics.md §4.4), for ISA units.
#pragma once

#include <cstdint>

#include "reference/simd/isa.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// Writes n codes of `bits` ≤ 8 bits: eight of them are `bits` bytes. Codes up to a multiple of 8 are read; those
/// beyond n must be 0.
template <class Code>
inline void pack_bits(int32_t bits, const Code* codes, int64_t n, uint8_t* out) {
  const int64_t bytes = (n * bits + 7) / 8;
  for (int64_t i = 0, b = 0; b < bytes; i += 8, b += bits) {
    uint64_t word = 0;
    for (int k = 0; k < 8; ++k) word |= static_cast<uint64_t>(codes[i + k]) << (k * bits);
    for (int64_t k = 0; k < bits && b + k < bytes; ++k) out[b + k] = static_cast<uint8_t>(word >> (8 * k));
  }
}

/// Reads n codes of `bits` ≤ 8 bits as bytes; writes up to 7 more.
inline void unpack_bits(int32_t bits, const uint8_t* packed, int64_t n, uint8_t* codes) {
  const int64_t bytes = (n * bits + 7) / 8;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (int64_t i = 0, b = 0; i < n; i += 8, b += bits) {
    uint64_t word = 0;
    for (int64_t k = 0; k < bits && b + k < bytes; ++k) word |= static_cast<uint64_t>(packed[b + k]) << (8 * k);
    for (int k = 0; k < 8; ++k) codes[i + k] = static_cast<uint8_t>((word >> (k * bits)) & mask);
  }
}

}  // namespace fp4sim::simd::FP4SIM_ISA
