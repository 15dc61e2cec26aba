// HostBackend: the memory half of a backend whose tensors lie in this process's memory (scalar, simd).
#pragma once

#include "reference/contract/backend.h"

namespace fp4sim {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(int64_t bytes);
  ~HostBuffer() override;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  std::byte* data() { return data_; }

 private:
  std::byte* data_;
};

/// The component's memory; the part must belong to a HostBackend.
std::byte* host_data(const Part& part);

template <class T>
const T* in_data(const Tensor& t, int part = 0) {
  return reinterpret_cast<const T*>(host_data(t.parts[part]));
}
template <class T>
T* out_data(const Tensor& t, int part = 0) {
  return reinterpret_cast<T*>(host_data(t.parts[part]));
}

/// The element format of a packed value: the spec's, with the stored bias for `bauto`.
inline ElementFormat element_of(const Tensor& packed) {
  const ElementFormat& f = packed.type.spec.element;
  return f.bias_auto ? with_bias(f, *in_data<int32_t>(packed, 1)) : f;
}

class HostBackend : public Backend {
 public:
  std::unique_ptr<Buffer> allocate(int64_t bytes) override;
  void upload(const Part& to, const void* from, int64_t bytes) override;
  void download(const Part& from, void* to, int64_t bytes) override;
  uint64_t digest(const Tensor& tensor) override;
  void check(const Node& node, std::span<const ValueType> in, std::span<const ValueType> out) const override;
};

}  // namespace fp4sim
