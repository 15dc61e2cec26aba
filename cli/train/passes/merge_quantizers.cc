// merge_quantizers, gather_quantizers and redundant_casts: neutral, they never change a bit.
#include <algorithm>
#include <list>

#include "cli/train/passes/passes.h"

namespace fp4sim::train {
namespace {

/// Ops whose result is a function of inputs and attributes alone and that recipes repeat on one value.
bool mergeable(const Node& node) {
  switch (node.op) {
    case Op::quantize:  // never two stochastic uses
      return !is_stochastic(parse_quant_spec(node.attrs.text("spec")).rounding);
    case Op::dequantize:
    case Op::soft_forward:
    case Op::occ_split:
    case Op::hadamard:
    case Op::add_residual:
    case Op::cast: return true;
    default: return false;
  }
}

void rename(std::vector<ValueId>& ids, const std::map<ValueId, ValueId>& names) {
  for (ValueId& v : ids)
    if (const auto it = names.find(v); it != names.end()) v = it->second;
}

}  // namespace

void merge_quantizers(Graph& graph) {
  std::map<std::string, std::vector<ValueId>> seen;
  std::map<ValueId, ValueId> names;
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    rename(node.inputs, names);
    if (mergeable(node)) {
      std::string key = std::string(op_name(node.op)) + " " + to_string(node.attrs);
      for (const ValueId v : node.inputs) key += " %" + std::to_string(v);
      const auto [it, first] = seen.try_emplace(key, node.outputs);
      if (!first) {
        for (size_t i = 0; i < node.outputs.size(); ++i) names[node.outputs[i]] = it->second[i];
        continue;
      }
    }
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  rename(graph.results, names);
}

void gather_quantizers(Graph& graph) {
  const auto given = [&](ValueId v) { return graph.values[static_cast<size_t>(v)].kind != ValueKind::temporary; };
  std::list<Node> order;
  std::map<ValueId, std::list<Node>::iterator> latest;  // quantizer of a value
  for (Node& node : graph.nodes) {
    auto place = order.end();
    const bool quantizes = node.op == Op::quantize;
    if (quantizes && std::all_of(node.inputs.begin() + 1, node.inputs.end(), given))
      if (const auto it = latest.find(node.inputs[0]); it != latest.end()) place = std::next(it->second);
    const auto at = order.insert(place, std::move(node));
    if (quantizes) latest[at->inputs[0]] = at;
  }
  graph.nodes.assign(std::make_move_iterator(order.begin()), std::make_move_iterator(order.end()));
}

void redundant_casts(Graph& graph) {
  std::map<ValueId, const Node*> writer;
  std::map<ValueId, ValueId> names;
  const auto written_by = [&](ValueId v, Op op) {
    const auto it = writer.find(v);
    return it != writer.end() && it->second->op == op ? it->second : nullptr;
  };
  for (Node& node : graph.nodes) {
    rename(node.inputs, names);
    for (const ValueId v : node.outputs) writer[v] = &node;
    // dequantize(quantize to bf16 (cast from bf16)): the value is on the bf16 grid already. Rounding cannot move it.
    if (node.op != Op::dequantize) continue;
    const Node* quantize = written_by(node.inputs[0], Op::quantize);
    if (quantize == nullptr) continue;
    const QuantSpec& spec = graph.type(node.inputs[0]).spec;
    if (!(spec.element == kBf16) || !is_unscaled(spec) || spec.occ.enabled) continue;
    const Node* load = written_by(quantize->inputs[0], Op::cast);
    if (load != nullptr && load->attrs.text("to") == "f32") names[node.outputs[0]] = quantize->inputs[0];
  }
  rename(graph.results, names);
}

}  // namespace fp4sim::train
