#include "reference/contract/graph.h"

#include <fmt/format.h>

#include "reference/contract/error.h"

namespace fp4sim {
namespace {

std::vector<ValueType> input_types(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<ValueType> types;
  for (const ValueId v : ids) {
    if (v < 0 || static_cast<size_t>(v) >= graph.values.size()) throw Error(fmt::format("graph: no value %{}", v));
    types.push_back(graph.type(v));
  }
  return types;
}

std::string value_label(const Graph& graph, ValueId v) {
  const Value& value = graph.values[static_cast<size_t>(v)];
  return value.name.empty() ? fmt::format("%{}", v) : fmt::format("%{}:{}", v, value.name);
}

}  // namespace

ValueId add_value(Graph& graph, ValueType type, ValueKind kind, std::string name) {
  graph.values.push_back({std::move(type), kind, std::move(name)});
  return static_cast<ValueId>(graph.values.size() - 1);
}

std::vector<ValueId> add_node(Graph& graph, Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
  std::vector<ValueType> types;
  try {
    types = infer_types(op, input_types(graph, inputs), attrs);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw Error(name.empty() ? e.what() : fmt::format("{} (node {})", e.what(), name));
  }
  std::vector<ValueId> outputs;
  if (op == Op::adamw)
    outputs = {inputs[0], inputs[1], inputs[2]};
  else
    for (ValueType& type : types) outputs.push_back(add_value(graph, std::move(type), ValueKind::temporary, {}));
  graph.nodes.push_back({op, std::move(inputs), outputs, std::move(attrs), std::move(name)});
  return outputs;
}

void validate(const Graph& graph) {
  std::vector<bool> written(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) written[v] = graph.values[v].kind != ValueKind::temporary;
  for (const Node& node : graph.nodes) {
    const std::vector<ValueType> types = infer_types(node.op, input_types(graph, node.inputs), node.attrs);
    for (const ValueId v : node.inputs)
      if (!written[static_cast<size_t>(v)])
        throw Error(fmt::format("graph: {} {} reads %{} before it is written", op_name(node.op), node.name, v));
    if (types.size() != node.outputs.size())
      throw Error(
          fmt::format("graph: {} has {} outputs, expected {}", op_name(node.op), node.outputs.size(), types.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (!(graph.type(v) == types[i]))
        throw Error(fmt::format("graph: {} {}: output %{} is {}, expected {}", op_name(node.op), node.name, v,
                                to_string(graph.type(v)), to_string(types[i])));
      if (graph.values[static_cast<size_t>(v)].kind == ValueKind::temporary) {
        if (written[static_cast<size_t>(v)]) throw Error(fmt::format("graph: %{} is written twice", v));
        written[static_cast<size_t>(v)] = true;
      } else if (node.op != Op::adamw) {
        throw Error(fmt::format("graph: {} writes %{}, which is not a temporary", op_name(node.op), v));
      }
    }
  }
  for (const ValueId v : graph.results)
    if (!written[static_cast<size_t>(v)]) throw Error(fmt::format("graph: result %{} is never written", v));
}

std::string to_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.outputs.size(); ++i)
      text += fmt::format("{}{} {}", i ? ", " : "", value_label(graph, node.outputs[i]),
                          to_string(graph.type(node.outputs[i])));
    text += fmt::format(" = {}(", op_name(node.op));
    for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + value_label(graph, node.inputs[i]);
    const std::string attrs = to_string(node.attrs);
    text += ")" + (attrs.empty() ? "" : " " + attrs) + (node.name.empty() ? "" : "  # " + node.name) + "\n";
  }
  return text;
}

std::string to_dot(const Graph& graph) {
  std::string text = "digraph fp4sim {\n  rankdir=TB; node [shape=box, fontname=\"monospace\"];\n";
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind != ValueKind::temporary)
      text += fmt::format("  v{} [shape=ellipse, label=\"{}\\n{}\"];\n", v, graph.values[v].name,
                          to_string(graph.values[v].type));
  std::vector<int64_t> writer(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    text += fmt::format("  n{} [label=\"{}\\n{}\"];\n", n, op_name(node.op), node.name);
    for (const ValueId v : node.inputs) {
      const int64_t w = writer[static_cast<size_t>(v)];
      text += w >= 0 ? fmt::format("  n{} -> n{} [label=\"%{}\"];\n", w, n, v) : fmt::format("  v{} -> n{};\n", v, n);
    }
    for (const ValueId v : node.outputs) writer[static_cast<size_t>(v)] = static_cast<int64_t>(n);
  }
  return text + "}\n";
}

}  // namespace fp4sim
