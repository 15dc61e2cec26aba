// The graph of one step: values with static types, nodes in execution order. Constant once built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/contract/attrs.h"
#include "reference/contract/op.h"
#include "reference/contract/value_type.h"

namespace fp4sim {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// parameter and state live across steps and may be updated in place by adamw; input is uploaded every step;
/// constant is uploaded once; temporary is written by exactly one node.
enum class ValueKind : uint8_t { temporary, input, constant, parameter, state };

struct Value {
  ValueType type;
  ValueKind kind = ValueKind::temporary;
  std::string name;  // stable name; empty for most temporaries
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string name;  // "layers.3.ffn.up/fprop"; names a use for streams, passes and messages
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> results;  // temporaries that the caller reads after a run (kept alive to the end)

  const ValueType& type(ValueId v) const { return values[static_cast<size_t>(v)].type; }
};

/// Output types of a node; throws Error naming op, shapes and the mismatch. Checks arity, dtypes, shapes, attributes.
std::vector<ValueType> infer_types(Op op, const std::vector<ValueType>& inputs, const Attrs& attrs);

/// Adds a value that no node writes (input, constant, parameter, state).
ValueId add_value(Graph& graph, ValueType type, ValueKind kind, std::string name);

/// Appends a node with inferred fresh outputs; adamw's outputs are its own p, m, v. Returns the output ids.
std::vector<ValueId> add_node(Graph& graph, Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name = {});

/// Verifies order (inputs written before use), types against infer_types, single assignment. Throws Error.
void validate(const Graph& graph);

/// One line a node: `%12 f32(768, 128) = matmul(%3, %7) a_axis=last b_axis=last  # layers.0.attn.q/fprop`.
std::string to_text(const Graph& graph);
/// Graphviz DOT.
std::string to_dot(const Graph& graph);

}  // namespace fp4sim
