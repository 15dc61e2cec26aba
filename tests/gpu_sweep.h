// What gpu_sweep_test runs on all binary32 inputs: graphs, whose results are compared by digest, by group.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "reference/contract/graph.h"
#include "reference/contract/step_info.h"

namespace fp4sim::test {

constexpr int64_t kPiece = int64_t{1} << 18;  // inputs of one run: a piece and its results stay in a core's caches

/// A graph on x — kPiece inputs, each `copies` times in a row —, the constants beside it, and the values to compare.
struct Sweep {
  struct Constant {
    ValueId value;
    std::vector<uint8_t> bytes;
  };
  struct Check {
    std::string name;
    ValueId value;
  };
  Graph graph;
  const int64_t copies;
  const ValueId x;
  std::vector<Constant> constants;
  std::vector<Check> checks;

  explicit Sweep(Shape shape, int64_t copies_of_input = 1);

  /// A value filled with copies of `element`.
  template <class T>
  ValueId constant(ValueType type, const T& element) {
    const auto count = static_cast<size_t>(type.dtype == DType::u8 ? 1 : element_count(type.shape));
    std::vector<uint8_t> bytes(count * sizeof(T));
    for (size_t i = 0; i < count; ++i) std::memcpy(&bytes[i * sizeof(T)], &element, sizeof(T));
    const std::string name = "constant" + std::to_string(constants.size());
    constants.push_back({add_value(graph, std::move(type), ValueKind::constant, name), std::move(bytes)});
    return constants.back().value;
  }
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId quantize(const std::string& spec, std::vector<ValueId> inputs, const char* axis = "last");
  void check(std::string name, ValueId value);
};

/// A group of checks by its name on the command line.
struct SweepGroup {
  const char* name;
  Sweep (*make)();
};

/// Element formats, scale formats, whole blocks, activations (with the losses), estimators.
const std::vector<SweepGroup>& sweep_groups();

}  // namespace fp4sim::test
