// lower_to_packed: QDQ + product becomes the packed product of numerics.md §7, with the sparse part of OCC operands.
#include <fmt/format.h>

#include "cli/train/passes/passes.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

/// A product operand traced back to its codes.
struct Operand {
  ValueId packed = kNoValue;
  ValueId decoded = kNoValue;   // the dequantized tensor without a residual
  ValueId residual = kNoValue;  // csr
};

class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph) {}

  void run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const Node& node : old)
      for (const ValueId v : node.outputs) writer_[v] = &node;
    for (const Node& node : old) {
      if (node.op == Op::matmul)
        product(node);
      else
        graph_.nodes.push_back(node);
    }
    for (const Sum& sum : sums_) {
      replace_uses(graph_, sum.dense, sum.total, sum.node + 1, graph_.nodes.size());
    }
  }

 private:
  /// Codes packed along another axis than the product contracts are decoded (§7 "anything else"), residual included.
  Operand trace(ValueId v, const std::string& axis) const {
    Operand operand;
    const auto it = writer_.find(v);
    if (it == writer_.end()) return operand;
    const Node* node = it->second;
    if (node->op == Op::add_residual) {
      operand.residual = node->inputs[1];
      operand.decoded = node->inputs[0];
      node = writer_.at(operand.decoded);
    } else if (node->op == Op::dequantize) {
      operand.decoded = v;
    }
    if (node->op == Op::dequantize) operand.packed = node->inputs[0];
    const bool along = operand.packed != kNoValue && graph_.type(operand.packed).axis == parse_axis(axis);
    return along ? operand : Operand{};
  }

  /// §7: the same partition of k, or one scale a row or tensor on both sides. Everything else is decoded to fp32.
  bool packable(const Operand& a, const Operand& b) const {
    if (a.packed == kNoValue || b.packed == kNoValue) return false;
    const QuantSpec &sa = graph_.type(a.packed).spec, &sb = graph_.type(b.packed).spec;
    const auto whole = [](const QuantSpec& s) {
      return s.granularity == Granularity::row || s.granularity == Granularity::tensor;
    };
    if (whole(sa) && whole(sb)) return true;
    return contraction_block(sa) != 0 && contraction_block(sa) == contraction_block(sb);
  }

  void product(const Node& node) {
    const Operand a = trace(node.inputs[0], node.attrs.text("a_axis"));
    const Operand b = trace(node.inputs[1], node.attrs.text("b_axis"));
    if (a.residual != kNoValue && b.residual != kNoValue)
      throw Error(fmt::format("{}: a product of two +occ operands is not defined", node.name));
    Node dense = node;
    const bool packed = packable(a, b);
    if (packed) dense.inputs = {a.packed, b.packed};
    if (a.residual == kNoValue && b.residual == kNoValue) {
      graph_.nodes.push_back(std::move(dense));
      return;
    }
    // out = fl(quantized product + sparse): the residual's side takes the other operand decoded.
    const bool on_a = a.residual != kNoValue;
    if (!packed) dense.inputs[on_a ? 0 : 1] = on_a ? a.decoded : b.decoded;
    const ValueId out = node.outputs[0];
    graph_.nodes.push_back(std::move(dense));
    const Attrs attrs{{"side", on_a ? "a" : "b"}, {"other_axis", node.attrs.text(on_a ? "b_axis" : "a_axis")}};
    const ValueId sparse =
        add_node(graph_, Op::sparse_matmul, {on_a ? a.residual : b.residual, node.inputs[on_a ? 1 : 0]}, attrs,
                 node.name + "/sparse")
            .front();
    const ValueId sum = add_node(graph_, Op::add, {out, sparse}, {}, node.name + "/occ").front();
    sums_.push_back({out, sum, graph_.nodes.size() - 1});
  }

  /// Node `node` adds the sparse part to `dense`; later nodes read `total`.
  struct Sum {
    ValueId dense, total;
    size_t node;
  };

  Graph& graph_;
  std::map<ValueId, const Node*> writer_;
  std::vector<Sum> sums_;
};

}  // namespace

void lower_to_packed(Graph& graph, const Recipe& recipe) {
  if (!recipe.product_exact) return;
  Lowering lowering(graph);
  lowering.run();
}

}  // namespace fp4sim::train
