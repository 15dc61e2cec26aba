// HostTensor: a tensor of a file in this process's memory, with the element types that files use.
// Conversions here are between file types only; quantization and rounding rules live in the backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/value_type.h"

namespace fp4sim::io {

enum class FileType : uint8_t { f64, f32, f16, bf16, i64, i32, u8 };

/// One row a type: the safetensors word and the bytes of an element.
struct FileTypeRow {
  FileType type;
  const char* name;
  int64_t bytes;
};
inline constexpr FileTypeRow kFileTypes[] = {
    {FileType::f64, "F64", 8}, {FileType::f32, "F32", 4}, {FileType::f16, "F16", 2}, {FileType::bf16, "BF16", 2},
    {FileType::i64, "I64", 8}, {FileType::i32, "I32", 4}, {FileType::u8, "U8", 1},
};

const char* file_type_name(FileType type);
int64_t file_type_bytes(FileType type);
/// The type of a safetensors word, or nothing for a word outside the table.
std::optional<FileType> find_file_type(std::string_view name);

/// The element count of a shape, or nothing where a size is negative or the product leaves int64.
std::optional<int64_t> checked_element_count(const Shape& shape);

/// Shape, element type and the elements row-major in little-endian bytes.
struct HostTensor {
  FileType type = FileType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  /// The elements as T; T must have the size of the element type (checked: Error).
  template <class T>
  std::span<const T> as() const {
    require_element_bytes(sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    require_element_bytes(sizeof(T));
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  friend bool operator==(const HostTensor&, const HostTensor&) = default;

 private:
  void require_element_bytes(size_t bytes_of_t) const;
};

/// A tensor of zeros. Throws Error where the size leaves int64.
HostTensor make_tensor(FileType type, Shape shape);
/// A tensor of the given values; values.size() must be the shape's element count (Error).
HostTensor make_f32(Shape shape, std::span<const float> values);
HostTensor make_i32(Shape shape, std::span<const int32_t> values);
HostTensor make_i64(Shape shape, std::span<const int64_t> values);
HostTensor make_u8(Shape shape, std::span<const uint8_t> values);

/// The tensor as binary32: F16 and BF16 exactly, F64 rounded once to nearest even; integer types throw Error. NaN stays
/// NaN with the top bits of its payload.
HostTensor to_f32(const HostTensor& tensor);

/// The exact binary32 value of a binary16 bit pattern.
float f16_to_f32(uint16_t bits);
/// The exact binary32 value of a bfloat16 bit pattern.
float bf16_to_f32(uint16_t bits);

}  // namespace fp4sim::io
