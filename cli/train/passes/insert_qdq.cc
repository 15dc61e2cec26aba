// insert_qdq: a recipe's six places become quantize → dequantize (or soft_forward) nodes on the operands of the
// products.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cli/train/passes/passes.h"
#include "reference/contract/error.h"
#include "reference/contract/philox.h"

namespace fp4sim::train {
namespace {

/// "<layer>/<product>" → the two halves; an empty product if there is no slash.
std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {name, ""};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

const char* sign_name(HadamardSigns s) {
  return s == HadamardSigns::none ? "none" : s == HadamardSigns::fixed16 ? "fixed16" : "philox";
}

class Inserter {
 public:
  Inserter(Graph& graph, const Recipe& recipe, ValueId step) : graph_(graph), recipe_(recipe), step_(step) {}

  QdqResult run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : old) {
      if (node.op == Op::matmul) product(node);
      if (node.op == Op::embedding && !is_identity(recipe_.embedding))
        node.inputs[1] = operand(node, node.inputs[1], recipe_.embedding, "last", "w", "embedding/w/fprop");
      graph_.nodes.push_back(std::move(node));
    }
    return std::move(result_);
  }

 private:
  void product(Node& node) {
    const auto [layer, name] = split_name(node.name);
    const char* axes[] = {"a_axis", "b_axis"};
    const char* roles[] = {"a_role", "b_role"};
    for (size_t i = 0; i < 2; ++i) {
      const std::string role = node.attrs.text(roles[i]), axis = node.attrs.text(axes[i]);
      if (const int attention = attention_place(role); attention >= 0) {
        const QuantSpec& spec = recipe_.attention[static_cast<size_t>(attention)];
        if (name == "fprop" && !is_identity(spec))
          node.inputs[i] = operand(node, node.inputs[i], spec, axis, role, layer + "/" + role + "/fprop");
        continue;
      }
      const auto row = std::find_if(std::begin(kPlaces), std::end(kPlaces), [&, &product = name](const PlaceRow& p) {
        return product == p.product && role == p.operand;
      });
      // The gradients of the attention products (dy with q, k, p or v) are not places of a recipe.
      if (row == std::end(kPlaces) || attention_product(node)) continue;
      place(node, i, layer, recipe_.layer(layer)[row->id], *row, axis);
    }
  }

  static int attention_place(const std::string& role) {
    constexpr const char* kRoles[] = {"q", "k", "v", "p"};
    for (int i = 0; i < 4; ++i)
      if (role == kRoles[i]) return i;
    return -1;
  }

  static bool attention_product(const Node& node) {
    return attention_place(node.attrs.text("a_role")) >= 0 || attention_place(node.attrs.text("b_role")) >= 0;
  }

  void place(Node& node, size_t i, const std::string& layer, const Place& place, const PlaceRow& row,
             const std::string& axis) {
    const int64_t micro_batch = node.attrs.integer_or("micro_batch", 0);
    ValueId value = node.inputs[i];
    if (place.source == Source::forward) {
      const auto it = forward_.find({layer, micro_batch, row.id == kDgradW ? kFpropW : kFpropX});
      // Absent: the forward product used the original value (its place is not quantized).
      if (it != forward_.end()) value = it->second;
    }
    if (!is_identity(place.spec)) {
      QuantizerUse use{layer, row.id, micro_batch, node.inputs[i], kNoValue, kNoValue, kNoValue, {}};
      value = operand(node, value, place.spec, axis, row.operand, layer + "/" + row.operand + "/" + row.product,
                      &place.estimator, &use);
      if (row.id == kFpropX || row.id == kFpropW) {
        forward_[{layer, micro_batch, row.id}] = value;
        result_.uses.push_back(std::move(use));
      }
    }
    node.inputs[i] = value;
  }

  /// The decoded operand of a product; `name` is the use's stable name (random streams). An estimator with a soft
  /// forward value gives that value in place of the decoded one.
  ValueId operand(const Node& product, ValueId value, const QuantSpec& spec, const std::string& axis,
                  const std::string& role, const std::string& name, const Estimator* estimator = nullptr,
                  QuantizerUse* use = nullptr) {
    if (spec.hadamard.n != 0) {
      Attrs attrs{{"n", int64_t{spec.hadamard.n}}, {"signs", sign_name(spec.hadamard.signs)}, {"axis", axis}};
      std::vector<ValueId> inputs{value};
      if (spec.hadamard.signs == HadamardSigns::philox) {
        attrs.set("stream", stream(product.name + "/had"));
        inputs.push_back(step_);
      }
      value = add_node(graph_, Op::hadamard, inputs, attrs, name + "/had").front();
      if (use != nullptr) use->hadamard = graph_.nodes.back();
    }
    ValueId residual = kNoValue;
    if (spec.occ.enabled) {
      const auto split =
          add_node(graph_, Op::occ_split, {value}, {{"spec", to_string(spec)}, {"axis", axis}}, name + "/occ");
      value = split[0];
      if (spec.occ.residual != ResidualFormat::none) residual = split[1];
    }
    Attrs attrs{{"spec", to_string(spec)}, {"axis", axis}};
    std::vector<ValueId> inputs{value};
    if (is_stochastic(spec.rounding)) {
      const MatrixView m = matrix_view(graph_.type(value).shape);
      const int64_t micro_batch = role == "w" ? 0 : product.attrs.integer_or("micro_batch", 0);
      attrs.set("stream", stream(name));
      attrs.set("row_offset", micro_batch * m.matrices * m.rows);
      inputs.push_back(step_);
    }
    const ValueId packed = add_node(graph_, Op::quantize, inputs, attrs, name).front();
    const bool soft = estimator != nullptr && estimator->soft_forward;
    const ValueId decoded =
        soft ? add_node(graph_, Op::soft_forward, {value, packed}, {{"estimator", to_string(*estimator)}}, name).front()
             : add_node(graph_, Op::dequantize, {packed}, {}, name).front();
    if (use != nullptr) use->quantized_in = value, use->packed = packed, use->decoded = decoded;
    return residual == kNoValue ? decoded : add_node(graph_, Op::add_residual, {decoded, residual}, {}, name).front();
  }

  /// The stream of a use's name; two names with one stream would share their random bits (numerics.md §3).
  int64_t stream(const std::string& name) {
    const uint32_t stream = stream_of(name);
    const auto [it, first] = streams_.try_emplace(stream, name);
    if (!first && it->second != name)
      throw Error(fmt::format("the random streams of {} and {} are the same: rename a layer", it->second, name));
    return stream;
  }

  Graph& graph_;
  const Recipe& recipe_;
  ValueId step_;
  std::map<uint32_t, std::string> streams_;
  QdqResult result_;
  std::map<std::tuple<std::string, int64_t, PlaceId>, ValueId> forward_;  // what the forward product used
};

}  // namespace

QdqResult insert_qdq(Graph& graph, const Recipe& recipe, ValueId step) { return Inserter(graph, recipe, step).run(); }

}  // namespace fp4sim::train
