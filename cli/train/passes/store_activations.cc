// store_activations: activations = "bf16" rounds every forward value where it is stored; gradients stay binary32.
#include "cli/train/passes/passes.h"

namespace fp4sim::train {

void store_activations(Graph& graph, const std::vector<std::pair<size_t, size_t>>& forward_ranges) {
  std::vector<Node> old = std::move(graph.nodes);
  graph.nodes.clear();
  std::map<ValueId, ValueId> stored;
  size_t range = 0;
  for (size_t n = 0; n < old.size(); ++n) {
    Node node = std::move(old[n]);
    for (ValueId& v : node.inputs)
      if (const auto it = stored.find(v); it != stored.end()) v = it->second;
    const Op op = node.op;
    const std::vector<ValueId> outputs = node.outputs;
    graph.nodes.push_back(std::move(node));
    while (range < forward_ranges.size() && n >= forward_ranges[range].second) ++range;
    const bool forward = range < forward_ranges.size() && n >= forward_ranges[range].first;
    if (!forward || op == Op::cross_entropy) continue;  // losses stay binary32
    for (const ValueId v : outputs) {
      const ValueId narrow = add_node(graph, Op::cast, {v}, {{"to", "bf16"}}, "store").front();
      stored[v] = add_node(graph, Op::cast, {narrow}, {{"to", "f32"}}, "load").front();
    }
  }
  for (ValueId& v : graph.results)
    if (const auto it = stored.find(v); it != stored.end()) v = it->second;
}

}  // namespace fp4sim::train
