// Rows of codes as little-endian bit strings (numerics.md §4.4). Eight codes of b bits are b bytes, so that a thread
// which owns eight neighbouring codes owns whole bytes, whatever the width.
#pragma once

#include "gpu/bits.cuh"

namespace fp4sim::gpu {

constexpr int kGroupCodes = 8;  // codes of one thread; they fill `bits` bytes

/// Code number `index` of a row, of 3 … 8, 16 or 32 bits. Reads no byte outside of the code.
FP4SIM_HD uint32_t load_code(const uint8_t* row, int64_t index, int bits) {
  const int64_t first_bit = index * bits;
  const uint8_t* bytes = row + (first_bit >> 3);
  const int offset = static_cast<int>(first_bit & 7);
  uint32_t code = uint32_t{bytes[0]} >> offset;
  for (int have = 8 - offset, i = 1; have < bits; have += 8, ++i) code |= uint32_t{bytes[i]} << have;
  return bits == 32 ? code : code & ((1u << bits) - 1u);
}

/// Up to eight codes of at most 8 bits, gathered and then written as whole bytes.
struct CodeGroup {
  uint64_t string = 0;  // the bit string of the codes so far

  FP4SIM_HD void put(int index, int bits, uint32_t code) { string |= uint64_t{code} << (index * bits); }
  FP4SIM_HD uint32_t get(int index, int bits) const {
    return static_cast<uint32_t>(string >> (index * bits)) & ((1u << bits) - 1u);
  }
};

/// Reads the group of eight codes that begins at byte `bytes`; only the `count` bytes that exist.
FP4SIM_HD CodeGroup load_group(const uint8_t* bytes, int count) {
  CodeGroup group;
  for (int i = 0; i < count; ++i) group.string |= uint64_t{bytes[i]} << (8 * i);
  return group;
}

FP4SIM_HD void store_group(uint8_t* bytes, int count, const CodeGroup& group) {
  for (int i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(group.string >> (8 * i));
}

}  // namespace fp4sim::gpu
