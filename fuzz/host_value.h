// HostValue: one value of a graph as bytes in host memory, and the comparison of two of them bit by bit.
// Independent of the backends: what a backend's digest says can be checked against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::fuzz {

/// A value's type and the bytes of its components in the order of part_layouts(type).
struct HostValue {
  ValueType type;
  std::vector<std::vector<std::byte>> parts;

  template <class T>
  T* data(size_t part = 0) {
    return reinterpret_cast<T*>(parts[part].data());
  }
  template <class T>
  const T* data(size_t part = 0) const {
    return reinterpret_cast<const T*>(parts[part].data());
  }
};

/// A value of the type with every byte zero.
HostValue zero_value(const ValueType& type);

/// The tensor's bytes; waits for the backend's work on them.
HostValue download_value(Backend& backend, const Tensor& tensor);

/// Copies the value into the tensor, which has the same type.
void upload_value(Backend& backend, const Tensor& tensor, const HostValue& value);

/// A value in fresh memory of the backend.
OwnedTensor place_value(Backend& backend, const HostValue& value);

/// digest_of the bytes (digest.h).
uint64_t digest_value(const HostValue& value);

/// Entries in use of a csr value: the last row_ptr (the components behind it are free).
int64_t csr_entries(const HostValue& csr);

/// The first element at which two values of one type differ.
struct Difference {
  std::string part;     // "data", "codes", "scales" …
  int64_t element = 0;  // index in the component; for codes rows·cols order, col ≥ cols in the padding bits of a row
  uint64_t expected = 0, actual = 0;  // canonical bit patterns
  int64_t count = 0;                  // elements that differ in this component (bytes for codes)
  int width = 4;                      // bytes of an element
};

/// The first difference, or nothing for equal bits with NaN canonical (numerics.md §1): components in order, csr
/// entries up to row_ptr's end only, padding bits of codes count. Throws Error for values of different types.
std::optional<Difference> first_difference(const HostValue& expected, const HostValue& actual);

/// One line: `codes[17]: 0x7 expected, 0x6 (3 differ)`.
std::string to_string(const Difference& difference);

}  // namespace fp4sim::fuzz
