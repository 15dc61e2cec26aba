// NumPy's .npy files (format versions 1 to 3) of the types that fp4sim reads and writes: '<f4', '<f2' and '<i4'.
#pragma once

#include <string>

#include "cli/io/host_tensor.h"

namespace fp4sim::io {

enum class NpyOrder : uint8_t { c, fortran };

/// The array of a file, always row-major: a Fortran-order file is transposed while reading. Throws Error naming the
/// file for a wrong magic, version, header, type, size, and for bytes missing or left over.
HostTensor read_npy(const std::string& path);

/// Writes an F32, F16 or I32 tensor as version 1.0 through write_file_atomic; `order` is the order in the file.
void write_npy(const std::string& path, const HostTensor& tensor, NpyOrder order = NpyOrder::c);

}  // namespace fp4sim::io
