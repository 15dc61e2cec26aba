#include "reference/contract/host_backend.h"

#include <cstring>
#include <new>

#include "reference/contract/digest.h"
#include "reference/contract/error.h"
#include "reference/contract/huge_pages.h"

namespace fp4sim {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

HostBuffer::HostBuffer(int64_t bytes)
    : data_(static_cast<std::byte*>(
          ::operator new(static_cast<size_t>(bytes > 0 ? bytes : 1), kAlignment, std::nothrow))) {
  if (data_ == nullptr) throw Error("out of memory: " + std::to_string(bytes) + " bytes needed");
  prefer_huge_pages(data_, static_cast<size_t>(bytes));
  std::memset(data_, 0, static_cast<size_t>(bytes));
}

HostBuffer::~HostBuffer() { ::operator delete(data_, kAlignment); }

std::byte* host_data(const Part& part) { return static_cast<HostBuffer*>(part.buffer)->data() + part.offset; }

std::unique_ptr<Buffer> HostBackend::allocate(int64_t bytes) { return std::make_unique<HostBuffer>(bytes); }

void HostBackend::upload(const Part& to, const void* from, int64_t bytes) {
  if (bytes > to.bytes) throw Error("upload of " + std::to_string(bytes) + " bytes into " + std::to_string(to.bytes));
  if (bytes > 0) std::memcpy(host_data(to), from, static_cast<size_t>(bytes));
}

void HostBackend::download(const Part& from, void* to, int64_t bytes) {
  if (bytes > from.bytes)
    throw Error("download of " + std::to_string(bytes) + " bytes from " + std::to_string(from.bytes));
  if (bytes > 0) std::memcpy(to, host_data(from), static_cast<size_t>(bytes));
}

uint64_t HostBackend::digest(const Tensor& tensor) {
  const void* parts[kMaxParts] = {};
  for (int i = 0; i < kMaxParts; ++i)
    if (tensor.parts[i].buffer != nullptr) parts[i] = host_data(tensor.parts[i]);
  return digest_of(tensor.type, parts);
}

void HostBackend::check(const Node&, std::span<const ValueType> in, std::span<const ValueType> out) const {
  for (const auto types : {in, out})
    for (const ValueType& type : types)
      if (type.dtype == DType::packed || type.dtype == DType::csr) require_computable(type.spec);
}

}  // namespace fp4sim
