#include "fuzz/host_value.h"

#include <fmt/format.h>

#include <cstring>

#include "reference/contract/digest.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

constexpr int kRowPtrBytes = 8;

int element_bytes(const ValueType& type, size_t index, const PartLayout& part) {
  if (type.dtype == DType::csr && index == 0) return kRowPtrBytes;
  switch (part.dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16: return 2;
    default: return 1;
  }
}

uint64_t canonical_bits(const std::vector<std::byte>& bytes, int64_t i, DType dtype, int width) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, static_cast<size_t>(width));
  if (dtype == DType::f32) return canonical_f32(static_cast<uint32_t>(bits));
  constexpr uint64_t kBf16Magnitude = 0x7FFF, kBf16Inf = 0x7F80, kBf16NaN = 0x7FC0;
  if (dtype == DType::bf16 && (bits & kBf16Magnitude) > kBf16Inf) return kBf16NaN;
  return bits;
}

/// Turns a differing byte of codes into the code that differs: its element and both bit patterns.
void locate_code(const HostValue& expected, const HostValue& actual, Difference& d) {
  const ValueType& type = expected.type;
  const int64_t row_bytes = code_row_bytes(type), cols = matrix_view(type.shape).cols;
  const int bits = type.spec.element.bits;
  const int64_t row = d.element / row_bytes, byte = d.element % row_bytes;
  int bit = 0;
  while (((d.expected ^ d.actual) >> bit & 1u) == 0) ++bit;
  const int64_t col = (byte * 8 + bit) / bits;
  const auto code = [&](const HostValue& v) {
    uint64_t value = 0;
    for (int64_t k = 0; k < bits; ++k) {
      const int64_t at = col * bits + k;
      if (at / 8 >= row_bytes) break;
      value |= static_cast<uint64_t>(v.data<uint8_t>()[row * row_bytes + at / 8] >> (at % 8) & 1) << k;
    }
    return value;
  };
  d.element = row * cols + col;
  d.expected = code(expected);
  d.actual = code(actual);
}

}  // namespace

HostValue zero_value(const ValueType& type) {
  HostValue value{type, {}};
  for (const PartLayout& part : part_layouts(type)) value.parts.emplace_back(static_cast<size_t>(part.bytes));
  return value;
}

HostValue download_value(Backend& backend, const Tensor& tensor) {
  backend.synchronize();
  HostValue value = zero_value(tensor.type);
  for (size_t k = 0; k < value.parts.size(); ++k)
    backend.download(tensor.parts[k], value.parts[k].data(), static_cast<int64_t>(value.parts[k].size()));
  return value;
}

void upload_value(Backend& backend, const Tensor& tensor, const HostValue& value) {
  if (!(tensor.type == value.type))
    throw Error("upload of " + to_string(value.type) + " into " + to_string(tensor.type));
  for (size_t k = 0; k < value.parts.size(); ++k)
    backend.upload(tensor.parts[k], value.parts[k].data(), static_cast<int64_t>(value.parts[k].size()));
}

OwnedTensor place_value(Backend& backend, const HostValue& value) {
  OwnedTensor owned = allocate_tensor(backend, value.type);
  upload_value(backend, owned.tensor, value);
  return owned;
}

uint64_t digest_value(const HostValue& value) {
  const void* parts[kMaxParts] = {};
  for (size_t k = 0; k < value.parts.size(); ++k) parts[k] = value.parts[k].data();
  return digest_of(value.type, parts);
}

int64_t csr_entries(const HostValue& csr) {
  int64_t entries = 0;
  const size_t bytes = csr.parts[0].size();
  std::memcpy(&entries, csr.parts[0].data() + bytes - kRowPtrBytes, kRowPtrBytes);
  return entries;
}

std::optional<Difference> first_difference(const HostValue& expected, const HostValue& actual) {
  if (!(expected.type == actual.type))
    throw Error("cannot compare " + to_string(expected.type) + " with " + to_string(actual.type));
  size_t index = 0;
  for (const PartLayout& part : part_layouts(expected.type)) {
    const int width = element_bytes(expected.type, index, part);
    int64_t count = part.bytes / width;
    // Behind row_ptr's end a csr value's memory is free; row_ptr itself was compared before.
    if (expected.type.dtype == DType::csr && (index == 1 || index == 2)) count = csr_entries(expected);
    Difference d{part.name, -1, 0, 0, 0, width};
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t e = canonical_bits(expected.parts[index], i, part.dtype, width);
      const uint64_t a = canonical_bits(actual.parts[index], i, part.dtype, width);
      if (e == a) continue;
      if (d.count++ == 0) d.element = i, d.expected = e, d.actual = a;
    }
    if (d.count > 0) {
      if (expected.type.dtype == DType::packed && index == 0) locate_code(expected, actual, d);
      return d;
    }
    ++index;
  }
  return std::nullopt;
}

std::string to_string(const Difference& d) {
  return fmt::format("{}[{}]: 0x{:0{}X} expected, 0x{:0{}X} computed ({} differ)", d.part, d.element, d.expected,
                     2 * d.width, d.actual, 2 * d.width, d.count);
}

}  // namespace fp4sim::fuzz
