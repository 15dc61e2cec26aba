// Tensors of .npy and .safetensors files of any size, read as binary32 in pieces of row-major elements.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/io/files.h"
#include "cli/io/host_tensor.h"
#include "cli/io/npy.h"
#include "cli/io/streams.h"

namespace fp4sim::io {

class TensorSource {
 public:
  TensorSource(std::string name, std::shared_ptr<const InputFile> file, const NpyLayout& layout);

  const std::string& name() const { return name_; }
  const Shape& shape() const { return layout_.shape; }
  FileType type() const { return layout_.type; }
  const std::string& path() const { return file_->path(); }
  /// Elements first … first+count−1 in row-major order, whatever the order in the file, as exact binary32 values.
  void read(int64_t first, int64_t count, float* to) const;

 private:
  void gather(int64_t first, int64_t count, std::byte* to) const;
  std::string name_;
  std::shared_ptr<const InputFile> file_;
  NpyLayout layout_;
  std::shared_ptr<const MappedFile> map_;  // Fortran order: row-major neighbours lie far apart
};

/// The floating-point tensors (F32, F16, BF16) of a file whose names match the shell pattern `glob` (empty: all), by
/// ascending name; the tensor of an .npy file is named by the file's stem. Throws Error where the file is unsound, a
/// matching tensor has another type, or none matches, and UsageError for another file type.
std::vector<TensorSource> open_tensors(const std::string& path, const std::string& glob);

}  // namespace fp4sim::io
