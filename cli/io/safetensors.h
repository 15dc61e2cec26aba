// The safetensors container: 8 bytes little-endian header length, a JSON header, then the tensors' bytes.
// Reading trusts nothing: lengths, JSON, names, types, shapes and byte ranges are all checked before a tensor is
// touched.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/files.h"
#include "cli/io/host_tensor.h"
#include "cli/io/streams.h"

namespace fp4sim::io {

/// One tensor of the header; begin and end are bytes after the header.
struct TensorEntry {
  std::string name;
  FileType type = FileType::f32;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // ascending by name
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;  // bytes from the start of the file to the tensors' bytes
};

/// The checked header of a whole file's bytes. Throws Error, naming `path`, where the header length leaves the file,
/// the JSON is malformed, a name is duplicated, a type is unknown, a shape is not of non-negative integers or disagrees
/// with its byte range, or the ranges overlap, leave holes or do not end at the end of the file.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& path);

/// The same for a file of any size; only the header is read.
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// A safetensors file that is read lazily: the header at once, a tensor's bytes when asked for.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The header entry of a name; throws Error naming file and tensor where there is none.
  const TensorEntry& entry(std::string_view name) const;
  /// The tensor's bytes inside the map; valid as long as this object.
  std::span<const std::byte> bytes(std::string_view name) const;
  /// A copy of the tensor.
  HostTensor read(std::string_view name) const;

 private:
  const TensorEntry* find(std::string_view name) const;
  MappedFile file_;
  SafetensorsHeader header_;
};

/// Writes a file of any size: names, types and shapes at once, the bytes piece by piece in any order. Tensors lie with
/// wide elements first and then by name, so that each begins at a multiple of its element size. The file appears on
/// commit (OutputFile); what was not written is zero bytes.
class SafetensorsWriter {
 public:
  struct Item {
    FileType type = FileType::f32;
    Shape shape;
  };
  SafetensorsWriter(const std::string& path, const std::map<std::string, Item>& items,
                    const std::map<std::string, std::string>& metadata);
  /// Bytes of a tensor from its byte `offset` on; Error where they leave it.
  void write(const std::string& name, int64_t offset, std::span<const std::byte> bytes);
  void commit();
  /// Bytes of all tensors.
  int64_t data_bytes() const { return data_bytes_; }

 private:
  struct Range {
    int64_t begin, end;  // bytes of the file
  };
  std::map<std::string, Range> ranges_;
  int64_t data_bytes_ = 0;
  OutputFile file_;
};

/// Writes the tensors through SafetensorsWriter. The same tensors and metadata give the same bytes.
void write_safetensors(const std::string& path, const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace fp4sim::io
