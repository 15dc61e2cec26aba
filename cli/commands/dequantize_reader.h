// Packed values in a safetensors file, checked: names, metadata, types, sizes. Nothing in the file is trusted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/packed_file.h"

namespace fp4sim::cli {

/// One packed tensor: its type (with the stored bias for `bauto`) and where its bytes lie.
struct PackedEntry {
  std::string name;
  ValueType packed;
  int32_t bias = 0;
  std::map<std::string, io::TensorEntry> parts;  // by suffix: .codes, .scales, .tensor_scale; .blocks
};

struct PackedFile {
  std::shared_ptr<const io::InputFile> file;
  int64_t data_offset = 0;  // of the parts' ranges
  PackedLayout layout = PackedLayout::fp4sim;
  std::vector<PackedEntry> tensors;  // ascending by name

  /// Bytes of a part from its byte `offset` on.
  void read(const io::TensorEntry& part, int64_t offset, std::span<std::byte> to) const {
    file->read(data_offset + part.begin + offset, to);
  }
};

/// The packed tensors of a file. Throws Error, naming the file, where metadata is missing or wrong, a tensor has
/// another type or shape than its metadata say, or a tensor belongs to none of the names.
PackedFile open_packed(const std::string& path);

/// Throws Error for codes or scales that no quantizer writes: padding bits set, a scale code that the format does not
/// have, a negative or infinite binary32 scale. `row_bits`: bits of a row that hold codes.
void check_codes(std::span<const uint8_t> codes, int64_t row_bytes, int64_t row_bits);
void check_scales(std::span<const std::byte> scales, const QuantSpec& spec);

}  // namespace fp4sim::cli
