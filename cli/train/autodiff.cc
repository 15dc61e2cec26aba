#include "cli/train/autodiff.h"

#include <fmt/format.h>

#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

/// What a rule sees: the forward node (by value: the graph grows meanwhile) and the gradient of each of its outputs.
struct Backward {
  Graph& graph;
  const Node node;
  const std::vector<ValueId> dy;

  ValueId in(size_t i) const { return node.inputs[i]; }
  const Shape& shape(ValueId v) const { return graph.type(v).shape; }
  std::vector<ValueId> add(Op op, std::vector<ValueId> inputs, Attrs attrs, const std::string& name) const {
    return add_node(graph, op, std::move(inputs), std::move(attrs), name);
  }
  ValueId one(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) const {
    return add(op, std::move(inputs), std::move(attrs), node.name + "/grad").front();
  }
};

/// Gradients of the inputs, kNoValue where there is none.
using Contributions = std::vector<ValueId>;
using Rule = Contributions (*)(const Backward&);

const char* flipped(const std::string& axis) { return axis == "last" ? "first" : "last"; }

std::string with_role(const std::string& name, const char* role) {
  const size_t slash = name.rfind("/fprop");
  return (slash == std::string::npos ? name : name.substr(0, slash)) + "/" + role;
}

ValueId product(const Backward& b, ValueId a, const char* a_axis, const std::string& a_role, ValueId c,
                const char* b_axis, const std::string& b_role, const char* role) {
  const Attrs attrs{{"a_axis", a_axis}, {"b_axis", b_axis}, {"a_role", a_role}, {"b_role", b_role}};
  return b.add(Op::matmul, {a, c}, attrs, with_role(b.node.name, role)).front();
}

// y = a·bᵀ. da = dy·b and db = dyᵀ·a, written in the stored order of the operand they belong to.
Contributions matmul(const Backward& b) {
  const std::string &a_axis = b.node.attrs.text("a_axis"), &b_axis = b.node.attrs.text("b_axis");
  const std::string &a_role = b.node.attrs.text("a_role"), &b_role = b.node.attrs.text("b_role");
  const ValueId dy = b.dy[0];
  const ValueId da = a_axis == "last" ? product(b, dy, "last", "dy", b.in(1), flipped(b_axis), b_role, "dgrad")
                                      : product(b, b.in(1), flipped(b_axis), b_role, dy, "last", "dy", "dgrad");
  const ValueId db = b_axis == "last" ? product(b, dy, "first", "dy", b.in(0), flipped(a_axis), a_role, "wgrad")
                                      : product(b, b.in(0), flipped(a_axis), a_role, dy, "first", "dy", "wgrad");
  return {da, db};
}

Contributions embedding(const Backward& b) {
  return {kNoValue, b.one(Op::embedding_grad, {b.in(0), b.dy[0]}, {{"rows", b.shape(b.in(1))[0]}})};
}

std::string list(const Shape& shape) {
  std::string text;
  for (const int64_t d : shape) text += (text.empty() ? "" : ",") + std::to_string(d);
  return text;
}

/// Gradient of an operand that repeats over the rows of dy: column sums, in the operand's shape.
ValueId sum_to(const Backward& b, ValueId dy, ValueId operand) {
  const Shape shape = b.shape(operand);
  if (shape == b.shape(dy)) return dy;
  const int64_t n = element_count(shape);
  const ValueId sum = b.one(Op::column_sum, {dy}, {{"columns", n}});
  if (shape.size() == 1) return sum;
  return b.one(Op::permute, {sum}, {{"view", std::to_string(n)}, {"perm", "0"}, {"shape", list(shape)}});
}

Contributions add(const Backward& b) { return {b.dy[0], sum_to(b, b.dy[0], b.in(1))}; }

Contributions mul(const Backward& b) {
  const ValueId dx = b.one(Op::mul, {b.dy[0], b.in(1)});
  return {dx, sum_to(b, b.one(Op::mul, {b.dy[0], b.in(0)}), b.in(1))};
}

Contributions scale(const Backward& b) { return {b.one(Op::scale, {b.dy[0]}, b.node.attrs)}; }

Shape parse(const std::string& text) {
  Shape shape;
  for (size_t at = 0; at < text.size();
       at = text.find(',', at) == std::string::npos ? text.size() : text.find(',', at) + 1)
    shape.push_back(std::stoll(text.substr(at)));
  return shape;
}

Contributions permute(const Backward& b) {
  const Shape view = parse(b.node.attrs.text("view")), perm = parse(b.node.attrs.text("perm"));
  Shape moved(view.size()), inverse(view.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    moved[i] = view[static_cast<size_t>(perm[i])];
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  return {b.one(Op::permute, {b.dy[0]},
                {{"view", list(moved)}, {"perm", list(inverse)}, {"shape", list(b.shape(b.in(0)))}})};
}

Contributions repeat_kv(const Backward& b) { return {b.one(Op::repeat_kv_grad, {b.dy[0]}, b.node.attrs)}; }
Contributions silu(const Backward& b) { return {b.one(Op::silu_grad, {b.dy[0], b.in(0)})}; }
Contributions gelu(const Backward& b) { return {b.one(Op::gelu_grad, {b.dy[0], b.in(0)})}; }

Contributions rmsnorm(const Backward& b) {
  return b.add(Op::rmsnorm_grad, {b.dy[0], b.in(0), b.in(1)}, b.node.attrs, b.node.name + "/grad");
}
Contributions layernorm(const Backward& b) {
  return b.add(Op::layernorm_grad, {b.dy[0], b.in(0), b.in(1)}, b.node.attrs, b.node.name + "/grad");
}

Contributions rope(const Backward& b) {
  Attrs attrs = b.node.attrs;
  attrs.set("inverse", 1 - attrs.integer_or("inverse", 0));
  return {b.one(Op::rope, {b.dy[0], b.in(1), b.in(2)}, attrs), kNoValue, kNoValue};
}

Contributions causal_softmax(const Backward& b) {
  return {b.one(Op::causal_softmax_grad, {b.dy[0], b.node.outputs[0]}, b.node.attrs)};
}

struct Row {
  Op op;
  Rule rule;  // nullptr: none
};

// One row for every op. "none": gradients themselves, quantization (the passes give it its estimators), losses
// (their gradient is a seed), data movement of results, and the optimizer.
constexpr Row kGradientRules[] = {
    {Op::embedding, embedding},
    {Op::embedding_grad, nullptr},
    {Op::matmul, matmul},
    {Op::sparse_matmul, nullptr},
    {Op::add_residual, nullptr},
    {Op::quantize, nullptr},
    {Op::dequantize, nullptr},
    {Op::estimator_grad, nullptr},
    {Op::soft_forward, nullptr},
    {Op::occ_split, nullptr},
    {Op::hadamard, nullptr},
    {Op::add, add},
    {Op::mul, mul},
    {Op::scale, scale},
    {Op::cast, nullptr},
    {Op::permute, permute},
    {Op::repeat_kv, repeat_kv},
    {Op::repeat_kv_grad, nullptr},
    {Op::concat, nullptr},
    {Op::silu, silu},
    {Op::silu_grad, nullptr},
    {Op::gelu, gelu},
    {Op::gelu_grad, nullptr},
    {Op::rmsnorm, rmsnorm},
    {Op::rmsnorm_grad, nullptr},
    {Op::layernorm, layernorm},
    {Op::layernorm_grad, nullptr},
    {Op::rope, rope},
    {Op::causal_softmax, causal_softmax},
    {Op::causal_softmax_grad, nullptr},
    {Op::cross_entropy, nullptr},
    {Op::cross_entropy_grad, nullptr},
    {Op::mean, nullptr},
    {Op::column_sum, nullptr},
    {Op::norm, nullptr},
    {Op::clip, nullptr},
    {Op::adamw, nullptr},
};

constexpr bool rows_in_op_order() {
  if (sizeof(kGradientRules) / sizeof(kGradientRules[0]) != kOpCount) return false;
  for (int i = 0; i < kOpCount; ++i)
    if (static_cast<int>(kGradientRules[i].op) != i) return false;
  return true;
}
static_assert(rows_in_op_order(), "every op of op.def needs a gradient rule or an explicit none, in op.def's order");

void accumulate(Graph& graph, Gradients& gradients, ValueId value, ValueId term, const std::string& name) {
  const auto [it, first] = gradients.try_emplace(value, term);
  if (!first) it->second = add_node(graph, Op::add, {it->second, term}, {}, name + "/sum").front();
}

}  // namespace

bool has_gradient_rule(Op op) { return kGradientRules[static_cast<int>(op)].rule != nullptr; }

Gradients add_backward(Graph& graph, size_t first, size_t last, const Gradients& seeds) {
  Gradients gradients = seeds;
  for (size_t n = last; n-- > first;) {
    const Node node = graph.nodes[n];
    std::vector<ValueId> dy;
    bool reached = true;
    for (const ValueId v : node.outputs) {
      const auto it = gradients.find(v);
      reached = reached && it != gradients.end();
      if (reached) dy.push_back(it->second);
    }
    if (!reached) continue;
    const Rule rule = kGradientRules[static_cast<int>(node.op)].rule;
    if (rule == nullptr) throw Error(fmt::format("autodiff: {} ({}) has no gradient", op_name(node.op), node.name));
    const Contributions terms = rule({graph, node, dy});
    for (size_t i = 0; i < terms.size(); ++i)
      if (terms[i] != kNoValue) accumulate(graph, gradients, node.inputs[i], terms[i], node.name);
  }
  return gradients;
}

}  // namespace fp4sim::train
