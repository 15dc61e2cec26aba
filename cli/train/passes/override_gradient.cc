// override_gradient: the estimator m(y) of numerics.md §5 between a backward product and the uses of its result.
#include <fmt/format.h>

#include <algorithm>

#include "cli/train/passes/passes.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

/// The backward product that yields the gradient of a use: dgrad for x, wgrad for w, of the same micro-batch.
size_t find_product(const Graph& graph, const QuantizerUse& use) {
  const std::string name = use.layer + (use.place == kFpropX ? "/dgrad" : "/wgrad");
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op == Op::matmul && node.name == name && node.attrs.integer_or("micro_batch", 0) == use.micro_batch)
      return n;
  }
  return graph.nodes.size();
}

void insert_after(Graph& graph, size_t product, const QuantizerUse& use, const Estimator& estimator) {
  const ValueId gradient = graph.nodes[product].outputs[0];
  const Attrs attrs = graph.nodes[product].attrs;
  std::vector<Node> tail(graph.nodes.begin() + static_cast<std::ptrdiff_t>(product) + 1, graph.nodes.end());
  graph.nodes.resize(product + 1);
  const std::string name = fmt::format("{}/{}/estimator", use.layer, kPlaces[use.place].operand);
  ValueId d = gradient;
  // In the rotated domain: rotate the gradient, multiply, rotate back.
  if (!use.hadamard.inputs.empty()) {
    std::vector<ValueId> inputs = use.hadamard.inputs;
    inputs[0] = d;
    d = add_node(graph, Op::hadamard, inputs, use.hadamard.attrs, name + "/had").front();
  }
  d = add_node(graph, Op::estimator_grad, {d, use.quantized_in, use.packed}, {{"estimator", to_string(estimator)}},
               name)
          .front();
  if (!use.hadamard.inputs.empty()) {
    std::vector<ValueId> inputs = use.hadamard.inputs;
    inputs[0] = d;
    Attrs inverse = use.hadamard.attrs;
    inverse.set("inverse", int64_t{1});
    d = add_node(graph, Op::hadamard, inputs, inverse, name + "/had").front();
  }
  const size_t begin = graph.nodes.size();
  graph.nodes.insert(graph.nodes.end(), tail.begin(), tail.end());
  replace_uses(graph, gradient, d, begin, graph.nodes.size());
}

}  // namespace

void replace_uses(Graph& graph, ValueId from, ValueId to, size_t begin, size_t end) {
  for (size_t n = begin; n < end; ++n)
    std::replace(graph.nodes[n].inputs.begin(), graph.nodes[n].inputs.end(), from, to);
  std::replace(graph.results.begin(), graph.results.end(), from, to);
}

void override_gradient(Graph& graph, const Recipe& recipe, const QdqResult& qdq) {
  for (const QuantizerUse& use : qdq.uses) {
    const Estimator& estimator = recipe.layer(use.layer)[use.place].estimator;
    if (estimator.kind == EstimatorKind::ste) continue;
    const size_t product = find_product(graph, use);
    if (product == graph.nodes.size())
      throw Error(
          fmt::format("{}: no backward product for the estimator of {}", use.layer, kPlaces[use.place].operand));
    insert_after(graph, product, use, estimator);
  }
}

}  // namespace fp4sim::train
