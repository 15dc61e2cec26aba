// lower_to_packed: QDQ + product becomes the packed product of numerics.md §7, with the sparse part of OCC operands and
// the factor of sr34 operands.
#include <fmt/format.h>

#include "cli/train/passes/passes.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

/// A product operand traced back to its quantizer.
struct Operand {
  ValueId packed = kNoValue;    // its codes; none for a soft forward value
  ValueId decoded = kNoValue;   // the f32 tensor without a residual
  ValueId residual = kNoValue;  // csr
  bool sr34 = false;            // its values are 3/4 of what they stand for
};

class Lowering {
 public:
  Lowering(Graph& graph, bool exact) : graph_(graph), exact_(exact) {}

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
    for (const Replacement& r : replacements_) replace_uses(graph_, r.from, r.to, r.node + 1, graph_.nodes.size());
  }

 private:
  /// Codes packed along another axis than the product contracts are decoded (§7 "anything else"), residual included.
  Operand trace(ValueId v, const std::string& axis) const {
    Operand operand{kNoValue, v, kNoValue, false};
    auto it = writer_.find(v);
    if (it == writer_.end()) return {};
    if (it->second->op == Op::add_residual) {
      operand.residual = it->second->inputs[1];
      operand.decoded = it->second->inputs[0];
      it = writer_.find(operand.decoded);
    }
    const Node& node = *it->second;
    if (node.op != Op::dequantize && node.op != Op::soft_forward) return {};
    const ValueId codes = node.inputs.back();
    const ValueType& type = graph_.type(codes);
    operand.sr34 = type.spec.sr34;
    if (type.axis != parse_axis(axis)) return {kNoValue, kNoValue, kNoValue, operand.sr34};
    if (node.op == Op::dequantize) operand.packed = codes;
    return operand;
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
    const bool sparse = a.residual != kNoValue || b.residual != kNoValue;
    if (a.residual != kNoValue && b.residual != kNoValue)
      throw Error(fmt::format("{}: a product of two +occ operands is not defined", node.name));
    if (sparse && (a.sr34 || b.sr34))
      throw Error(fmt::format("{}: a product of a +occ operand with a +sr34 operand is not defined", node.name));
    Node dense = node;
    const bool packed = exact_ && packable(a, b);
    if (packed) dense.inputs = {a.packed, b.packed};
    const bool on_a = a.residual != kNoValue;
    if (exact_ && sparse && !packed) dense.inputs[on_a ? 0 : 1] = on_a ? a.decoded : b.decoded;
    graph_.nodes.push_back(std::move(dense));
    if (exact_ && sparse) add_sparse(node, on_a ? a : b, on_a);
    if (!packed && (a.sr34 || b.sr34)) {
      // The attribute is rounded to binary32 once: fl(16/9) or fl(4/3).
      constexpr double kBoth = 16.0 / 9.0, kOne = 4.0 / 3.0;
      replace(node.outputs[0], add_node(graph_, Op::scale, {node.outputs[0]},
                                        {{"factor", a.sr34 && b.sr34 ? kBoth : kOne}}, node.name + "/sr34")
                                   .front());
    }
  }

  /// out = fl(quantized product + sparse): the residual's side takes the other operand decoded.
  void add_sparse(const Node& node, const Operand& side, bool on_a) {
    const Attrs attrs{{"side", on_a ? "a" : "b"}, {"other_axis", node.attrs.text(on_a ? "b_axis" : "a_axis")}};
    const ValueId sparse =
        add_node(graph_, Op::sparse_matmul, {side.residual, node.inputs[on_a ? 1 : 0]}, attrs, node.name + "/sparse")
            .front();
    replace(node.outputs[0], add_node(graph_, Op::add, {node.outputs[0], sparse}, {}, node.name + "/occ").front());
  }

  /// The last node made `to` of `from`; later nodes read `to`.
  void replace(ValueId from, ValueId to) { replacements_.push_back({from, to, graph_.nodes.size() - 1}); }

  struct Replacement {
    ValueId from, to;
    size_t node;
  };

  Graph& graph_;
  bool exact_;
  std::map<ValueId, const Node*> writer_;
  std::vector<Replacement> replacements_;
};

}  // namespace

void lower_to_packed(Graph& graph, const Recipe& recipe) { Lowering(graph, recipe.product_exact).run(); }

}  // namespace fp4sim::train
