// Runs small graphs on values of this process. Memory of values is kept between runs whose types agree.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::cli {

/// A component's bytes on the host.
using HostPart = std::span<const std::byte>;

class GraphRunner {
 public:
  explicit GraphRunner(Backend& backend) : backend_(backend) {}

  /// Runs the graph. inputs[i] holds the components, in the order of part_layouts, of the i-th value of kind input.
  void run(const Graph& graph, const std::vector<std::vector<HostPart>>& inputs);

  /// A component of a value of the last run.
  template <class T>
  std::vector<T> part(ValueId value, int index = 0) {
    const Part& from = tensors_[static_cast<size_t>(value)].parts[index];
    std::vector<T> elements(static_cast<size_t>(from.bytes) / sizeof(T));
    if (!elements.empty()) backend_.download(from, elements.data(), from.bytes);
    return elements;
  }

 private:
  Backend& backend_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> tensors_;
};

template <class T>
HostPart host_part(const std::vector<T>& elements) {
  return std::as_bytes(std::span(elements));
}

}  // namespace fp4sim::cli
