// NumPy's .npy files (format versions 1 to 3) of the types that fp4sim reads and writes: '<f4', '<f2' and '<i4'.
#pragma once

#include <string>

#include "cli/io/host_tensor.h"
#include "cli/io/streams.h"

namespace fp4sim::io {

enum class NpyOrder : uint8_t { c, fortran };

/// Where the array of a file lies: elements in `order`, from byte data_offset to the end of the file.
struct NpyLayout {
  FileType type = FileType::f32;
  Shape shape;
  NpyOrder order = NpyOrder::c;
  int64_t data_offset = 0;
};

/// The layout of a file from its header, without reading the array. Throws Error as read_npy does.
NpyLayout read_npy_layout(const InputFile& file);

/// What a version 1.0 file holds before the array; `path` is for messages.
std::string npy_header(FileType type, const Shape& shape, NpyOrder order, const std::string& path);

/// The steps, in elements, between neighbours along each axis.
std::vector<int64_t> strides_of(const Shape& shape, NpyOrder order);

/// The array of a file, always row-major: a Fortran-order file is transposed while reading. Throws Error naming the
/// file for a wrong magic, version, header, type, size, and for bytes missing or left over.
HostTensor read_npy(const std::string& path);

/// Writes an F32, F16 or I32 tensor as version 1.0 through write_file_atomic; `order` is the order in the file.
void write_npy(const std::string& path, const HostTensor& tensor, NpyOrder order = NpyOrder::c);

/// An F32 file written piece by piece, row-major; it appears on commit (OutputFile).
class NpyWriter {
 public:
  NpyWriter(const std::string& path, const Shape& shape);
  /// Values of the array from element `first` on.
  void write(int64_t first, std::span<const float> values);
  void commit() { file_.commit(); }

 private:
  std::string header_;
  OutputFile file_;
};

}  // namespace fp4sim::io
