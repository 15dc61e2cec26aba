#include "cli/io/host_tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files hold little-endian elements");

const FileTypeRow& row_of(FileType type) {
  for (const FileTypeRow& row : kFileTypes)
    if (row.type == type) return row;
  throw Error("file type outside the table");
}

template <class T>
HostTensor from_values(FileType type, Shape shape, std::span<const T> values) {
  HostTensor tensor = make_tensor(type, std::move(shape));
  if (tensor.as<T>().size() != values.size())
    throw Error(fmt::format("tensor {} needs {} values, got {}", to_string(tensor.shape), tensor.as<T>().size(),
                            values.size()));
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

template <class T, class Convert>
void convert_all(const HostTensor& from, HostTensor& to, Convert convert) {
  const auto source = from.as<T>();
  const auto target = to.as<float>();
  for (size_t i = 0; i < source.size(); ++i) target[i] = convert(source[i]);
}

}  // namespace

const char* file_type_name(FileType type) { return row_of(type).name; }
int64_t file_type_bytes(FileType type) { return row_of(type).bytes; }

std::optional<FileType> find_file_type(std::string_view name) {
  for (const FileTypeRow& row : kFileTypes)
    if (row.name == name) return row.type;
  return std::nullopt;
}

std::optional<int64_t> checked_element_count(const Shape& shape) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
  }
  if (empty) return 0;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return count;
}

void HostTensor::require_element_bytes(size_t bytes_of_t) const {
  if (static_cast<int64_t>(bytes_of_t) != file_type_bytes(type))
    throw Error(fmt::format("tensor of type {} has {}-byte elements, read as {}-byte elements", file_type_name(type),
                            file_type_bytes(type), bytes_of_t));
}

HostTensor make_tensor(FileType type, Shape shape) {
  const auto count = checked_element_count(shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, file_type_bytes(type), &bytes))
    throw Error(fmt::format("tensor {} of type {} is too large", to_string(shape), file_type_name(type)));
  return {type, std::move(shape), std::vector<std::byte>(static_cast<size_t>(bytes))};
}

HostTensor make_f32(Shape shape, std::span<const float> values) {
  return from_values(FileType::f32, std::move(shape), values);
}
HostTensor make_i32(Shape shape, std::span<const int32_t> values) {
  return from_values(FileType::i32, std::move(shape), values);
}
HostTensor make_i64(Shape shape, std::span<const int64_t> values) {
  return from_values(FileType::i64, std::move(shape), values);
}
HostTensor make_u8(Shape shape, std::span<const uint8_t> values) {
  return from_values(FileType::u8, std::move(shape), values);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  // zero and subnormals: fraction · 2^-24 is exact in binary32
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

HostTensor to_f32(const HostTensor& tensor) {
  if (tensor.type == FileType::f32) return tensor;
  HostTensor result = make_tensor(FileType::f32, tensor.shape);
  switch (tensor.type) {
    case FileType::f16: convert_all<uint16_t>(tensor, result, f16_to_f32); break;
    case FileType::bf16: convert_all<uint16_t>(tensor, result, bf16_to_f32); break;
    case FileType::f64: convert_all<double>(tensor, result, [](double v) { return static_cast<float>(v); }); break;
    default:
      throw Error(fmt::format("a tensor of type {} is not a floating-point tensor", file_type_name(tensor.type)));
  }
  return result;
}

}  // namespace fp4sim::io
