// dead_code: neutral, drops nodes whose outputs nobody reads.
#include "cli/train/passes/passes.h"

namespace fp4sim::train {

void dead_code(Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  for (const ValueId v : graph.results) live[static_cast<size_t>(v)] = true;
  std::vector<Node> kept;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    Node& node = graph.nodes[n];
    bool needed = node.op == Op::adamw;
    for (const ValueId v : node.outputs) needed = needed || live[static_cast<size_t>(v)];
    if (!needed) continue;
    for (const ValueId v : node.inputs) live[static_cast<size_t>(v)] = true;
    kept.push_back(std::move(node));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace fp4sim::train
