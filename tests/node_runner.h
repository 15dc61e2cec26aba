// Runs one node on a backend from host values: the smallest graph, uploads, run, downloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::test {

/// A value on the host: its type and the bytes of each component in the order of part_layouts(type).
struct HostValue {
  ValueType type;
  std::vector<std::vector<std::byte>> parts;
};

/// Copies elements of a trivially copyable type to bytes, and back.
template <class T>
std::vector<std::byte> to_bytes(const std::vector<T>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> from_bytes(const std::vector<std::byte>& bytes) {
  std::vector<T> elements(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), elements.size() * sizeof(T));
  return elements;
}

/// Host values of the plain types.
inline HostValue f32_value(Shape shape, const std::vector<float>& x) {
  return {{DType::f32, std::move(shape), {}, Axis::last}, {to_bytes(x)}};
}
inline HostValue i32_value(Shape shape, const std::vector<int32_t>& x) {
  return {{DType::i32, std::move(shape), {}, Axis::last}, {to_bytes(x)}};
}
inline HostValue bf16_value(Shape shape, const std::vector<uint16_t>& x) {
  return {{DType::bf16, std::move(shape), {}, Axis::last}, {to_bytes(x)}};
}
inline HostValue step_value(const StepInfo& step) { return {step_type(), {to_bytes(std::vector<StepInfo>{step})}}; }

/// The elements of component `part`.
inline std::vector<float> floats(const HostValue& v, size_t part = 0) { return from_bytes<float>(v.parts.at(part)); }
template <class T>
std::vector<T> elements(const HostValue& v, size_t part = 0) {
  return from_bytes<T>(v.parts.at(part));
}

/// Copies a host value into a tensor of the same type, and a tensor to the host.
inline void upload_value(Backend& backend, const HostValue& from, const Tensor& to) {
  for (size_t p = 0; p < from.parts.size(); ++p) {
    if (to.parts[p].bytes != static_cast<int64_t>(from.parts[p].size()))
      throw std::logic_error("upload_value: component size differs from the type's layout: " + to_string(from.type));
    if (!from.parts[p].empty()) backend.upload(to.parts[p], from.parts[p].data(), to.parts[p].bytes);
  }
}
inline HostValue download_value(Backend& backend, const Tensor& from) {
  HostValue v{from.type, {}};
  for (size_t p = 0; p < part_layouts(from.type).size(); ++p) {
    v.parts.emplace_back(static_cast<size_t>(from.parts[p].bytes));
    if (!v.parts.back().empty()) backend.download(from.parts[p], v.parts.back().data(), from.parts[p].bytes);
  }
  return v;
}

/// The outputs of `op` on `inputs`; adamw returns its updated p, m, v.
inline std::vector<HostValue> run_node(Backend& backend, Op op, const std::vector<HostValue>& inputs,
                                       Attrs attrs = {}) {
  Graph graph;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueKind kind = op != Op::adamw || i > 2 ? ValueKind::input
                           : i == 0                 ? ValueKind::parameter
                                                    : ValueKind::state;
    ids.push_back(add_value(graph, inputs[i].type, kind, "in" + std::to_string(i)));
  }
  const std::vector<ValueId> outputs = add_node(graph, op, ids, std::move(attrs), "node");
  graph.results = outputs;
  validate(graph);

  std::vector<OwnedTensor> owned;
  std::vector<Tensor> tensors;
  for (const Value& value : graph.values) {
    owned.push_back(allocate_tensor(backend, value.type));
    tensors.push_back(owned.back().tensor);
  }
  for (size_t i = 0; i < inputs.size(); ++i) upload_value(backend, inputs[i], tensors[static_cast<size_t>(ids[i])]);
  backend.compile({graph, tensors})->run();
  backend.synchronize();

  std::vector<HostValue> results;
  for (const ValueId id : outputs) results.push_back(download_value(backend, tensors[static_cast<size_t>(id)]));
  return results;
}

}  // namespace fp4sim::test
