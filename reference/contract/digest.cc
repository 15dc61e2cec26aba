#include "reference/contract/digest.h"

#include <cstring>

namespace fp4sim {
namespace {

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Canonical bits of element i of a component of `width` bytes; NaN is canonical in f32 and bf16 components. Codes of
/// quantized tensors are canonical already: encode writes only canonical NaN codes.
uint64_t element_bits(const void* data, int64_t i, DType dtype, int width) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + i * width, static_cast<size_t>(width));
  if (dtype == DType::f32) return canonical_f32(static_cast<uint32_t>(bits));
  if (dtype == DType::bf16 && (bits & 0x7FFFu) > 0x7F80u) return 0x7FC0u;
  return bits;
}

}  // namespace

uint64_t digest_of(const ValueType& type, const void* const* parts) {
  uint64_t sum = 0;
  int64_t entries = -1;  // csr: entries in use
  int index = 0;
  for (const PartLayout& part : part_layouts(type)) {
    const bool row_ptr = type.dtype == DType::csr && index == 0;
    const int width = row_ptr ? 8 : part.dtype == DType::u8 ? 1 : part.dtype == DType::bf16 ? 2 : 4;
    int64_t count = part.bytes / width;
    if (row_ptr) entries = static_cast<int64_t>(element_bits(parts[0], count - 1, DType::u8, 8));
    if (type.dtype == DType::csr && (index == 1 || index == 2)) count = entries;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t position = static_cast<uint64_t>(i + 1) + (static_cast<uint64_t>(index) << 48);
      sum += mix(element_bits(parts[index], i, part.dtype, width) + position * 0x9E3779B97F4A7C15ull);
    }
    ++index;
  }
  return sum;
}

}  // namespace fp4sim
