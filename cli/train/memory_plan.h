// Buffer plan: where each temporary of a graph lies in one arena, from the lifetimes of the values.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/graph.h"

namespace fp4sim::train {

struct MemoryPlan {
  std::vector<int64_t> offsets;  // by value; −1 for values that are not temporaries or are never written
  int64_t bytes = 0;             // of the arena
  int64_t bytes_without_reuse = 0;
};

/// First fit by order of execution: a value's memory is free again `rest` nodes after its last reader, so that a backend
/// may run neighbours as one (Backend::memory_rest); results live to the end; a node's outputs never share memory with
/// its inputs.
MemoryPlan plan_memory(const Graph& graph, size_t rest);

}  // namespace fp4sim::train
