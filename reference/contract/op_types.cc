// infer_types: one rule for every op. Rules check what the kernels rely on, so kernels need no checks of their own.
#include <fmt/format.h>

#include "reference/contract/error.h"
#include "reference/contract/estimator.h"
#include "reference/contract/graph.h"
#include "reference/contract/step_info.h"

namespace fp4sim {
namespace {

struct Call {
  const char* op;
  const std::vector<ValueType>& in;
  const Attrs& attrs;

  [[noreturn]] void fail(const std::string& what) const { throw Error(fmt::format("{}: {}", op, what)); }

  const ValueType& f32(size_t i) const {
    if (in[i].dtype != DType::f32) fail(fmt::format("input {} must be f32, got {}", i, to_string(in[i])));
    return in[i];
  }
  void same_shape(size_t i, size_t j) const {
    if (in[i].shape != in[j].shape) fail("shapes differ: " + to_string(in[i].shape) + " and " + to_string(in[j].shape));
  }
  void shape_is(size_t i, const Shape& shape) const {
    if (in[i].shape != shape)
      fail(fmt::format("input {} must have shape {}, got {}", i, to_string(shape), to_string(in[i].shape)));
  }
  void step(size_t i) const {
    if (!(in[i] == step_type())) fail("the step input must be the step tensor, got " + to_string(in[i]));
  }
  int64_t last(size_t i) const {
    if (in[i].shape.empty()) fail("a scalar where rows were expected");
    return in[i].shape.back();
  }
  void positive(const char* name) const {
    if (attrs.integer(name) <= 0) fail(fmt::format("attribute {} must be positive, got {}", name, attrs.integer(name)));
  }
};

ValueType f32_of(Shape shape) { return {DType::f32, std::move(shape), {}, Axis::last}; }
using Types = std::vector<ValueType>;
using Rule = Types (*)(const Call&);

Shape parse_list(const Call& c, const char* name) {
  Shape list;
  std::string item;
  for (const char ch : c.attrs.text(name) + ",") {
    if (ch != ',') {
      item += ch;
      continue;
    }
    if (item.empty() || item.find_first_not_of("0123456789") != std::string::npos || item.size() > 18)
      c.fail(fmt::format("attribute {} must be integers separated by commas, got `{}`", name, c.attrs.text(name)));
    list.push_back(std::stoll(item));
    item.clear();
  }
  return list;
}

Types same_as_first(const Call& c) { return {f32_of(c.f32(0).shape)}; }

Types two_alike(const Call& c) {
  c.f32(0), c.f32(1), c.same_shape(0, 1);
  return {f32_of(c.in[0].shape)};
}

Types broadcast(const Call& c) {
  const int64_t n = element_count(c.f32(0).shape), m = element_count(c.f32(1).shape);
  if (m == 0 ? n != 0 : n % m != 0)
    c.fail("the second operand does not repeat over the first: " + to_string(c.in[0].shape) + " and " +
           to_string(c.in[1].shape));
  return same_as_first(c);
}

Types embedding(const Call& c) {
  if (c.in[0].dtype != DType::i32 || c.in[0].shape.size() != 1) c.fail("ids must be i32 of one dimension");
  if (c.f32(1).shape.size() != 2) c.fail("the table must be (rows, width), got " + to_string(c.in[1].shape));
  return {f32_of({c.in[0].shape[0], c.in[1].shape[1]})};
}

Types embedding_grad(const Call& c) {
  if (c.in[0].dtype != DType::i32 || c.in[0].shape.size() != 1) c.fail("ids must be i32 of one dimension");
  if (c.f32(1).shape.size() != 2 || c.in[1].shape[0] != c.in[0].shape[0]) c.fail("dy must be (ids, width)");
  c.positive("rows");
  return {f32_of({c.attrs.integer("rows"), c.in[1].shape[1]})};
}

/// (rows, k) of a product operand: its last two dimensions in the order given by the axis.
std::pair<int64_t, int64_t> operand(const Call& c, size_t i, const char* axis_name) {
  const ValueType& t = c.in[i];
  if (t.shape.size() < 2) c.fail("operands must be matrices, got " + to_string(t.shape));
  const Axis axis = parse_axis(c.attrs.text(axis_name));
  if ((t.dtype == DType::packed || t.dtype == DType::csr) && t.axis != axis)
    c.fail(fmt::format("operand {} is packed along axis {}, the product contracts {}", i, to_string(t.axis),
                       to_string(axis)));
  if (t.dtype == DType::i32 || t.dtype == DType::u8) c.fail("operand " + to_string(t) + " is not a number");
  const int64_t rows = t.shape[t.shape.size() - 2], cols = t.shape.back();
  return axis == Axis::last ? std::pair{rows, cols} : std::pair{cols, rows};
}

Shape product_shape(const Call& c, size_t a, int64_t m, int64_t n) {
  Shape shape(c.in[a].shape.begin(), c.in[a].shape.end() - 2);
  shape.push_back(m), shape.push_back(n);
  return shape;
}

void inner_sizes(const Call& c, int64_t ka, int64_t kb) {
  if (ka != kb) c.fail(fmt::format("inner sizes differ: {} and {}", ka, kb));
  const Shape &a = c.in[0].shape, &b = c.in[1].shape;
  if (Shape(a.begin(), a.end() - 2) != Shape(b.begin(), b.end() - 2))
    c.fail("leading sizes differ: " + to_string(a) + " and " + to_string(b));
}

Types matmul(const Call& c) {
  const auto [m, ka] = operand(c, 0, "a_axis");
  const auto [n, kb] = operand(c, 1, "b_axis");
  if (c.in[0].dtype == DType::csr || c.in[1].dtype == DType::csr) c.fail("csr operands belong to sparse_matmul");
  inner_sizes(c, ka, kb);
  return {f32_of(product_shape(c, 0, m, n))};
}

Types sparse_matmul(const Call& c) {
  if (c.in[0].dtype != DType::csr) c.fail("the first input must be csr, got " + to_string(c.in[0]));
  c.f32(1);
  const VectorView v = vector_view(c.in[0].shape, c.in[0].axis);
  const auto [n, k] = operand(c, 1, "other_axis");
  if (c.in[0].shape.size() != 2 || c.in[1].shape.size() != 2) c.fail("operands must be matrices");
  if (k != v.length) c.fail(fmt::format("inner sizes differ: {} and {}", v.length, k));
  const std::string& side = c.attrs.text("side");
  if (side == "a") return {f32_of({v.vectors, n})};
  if (side == "b") return {f32_of({n, v.vectors})};
  c.fail("attribute side must be `a` or `b`, got `" + side + "`");
}

Types add_residual(const Call& c) {
  if (c.in[1].dtype != DType::csr) c.fail("the second input must be csr, got " + to_string(c.in[1]));
  c.same_shape(0, 1);
  return same_as_first(c);
}

void quantizable(const Call& c, const Shape& shape, Axis axis) {
  if (shape.empty()) c.fail("a scalar cannot be quantized");
  if (axis == Axis::first && shape.size() < 2) c.fail("axis=first needs a matrix, got " + to_string(shape));
}

Types quantize(const Call& c) {
  const QuantSpec spec = parse_quant_spec(c.attrs.text("spec"));
  const Axis axis = parse_axis(c.attrs.text("axis"));
  quantizable(c, c.f32(0).shape, axis);
  const bool stochastic = is_stochastic(spec.rounding), amax_given = c.in.size() == 3;
  if (!amax_given && stochastic != (c.in.size() == 2))
    c.fail("the step input goes with stochastic rounding, and only with it");
  if (amax_given && !needs_tensor_amax(spec)) c.fail("the spec has no tensor amax: " + to_string(spec));
  if (amax_given) c.step(1), c.f32(2), c.shape_is(2, {});
  if (stochastic) c.step(1), c.attrs.integer("stream"), c.attrs.integer("row_offset");
  return {{DType::packed, c.in[0].shape, spec, axis}};
}

Types dequantize(const Call& c) {
  if (c.in[0].dtype != DType::packed) c.fail("input must be packed, got " + to_string(c.in[0]));
  return {f32_of(c.in[0].shape)};
}

/// The intervals and midpoints of §5 are those of a grid of at most 8 bits.
void require_estimator_element(const Call& c, const ElementFormat& element) {
  if (element.bits > 8) c.fail("estimators need an element of at most 8 bits, got " + format_name(element));
}

Types estimator_grad(const Call& c) {
  two_alike(c);
  if (c.in[2].dtype != DType::packed) c.fail("q must be packed, got " + to_string(c.in[2]));
  c.same_shape(0, 2);
  if (parse_estimator(c.attrs.text("estimator")).kind != EstimatorKind::ste)
    require_estimator_element(c, c.in[2].spec.element);
  return {f32_of(c.in[0].shape)};
}

Types soft_forward(const Call& c) {
  c.f32(0);
  if (c.in[1].dtype != DType::packed) c.fail("q must be packed, got " + to_string(c.in[1]));
  c.same_shape(0, 1);
  if (!parse_estimator(c.attrs.text("estimator")).soft_forward) c.fail("the estimator must have forward=soft");
  require_estimator_element(c, c.in[1].spec.element);
  return {f32_of(c.in[0].shape)};
}

Types occ_split(const Call& c) {
  const QuantSpec spec = parse_quant_spec(c.attrs.text("spec"));
  const Axis axis = parse_axis(c.attrs.text("axis"));
  if (!spec.occ.enabled) c.fail("the spec has no +occ: " + to_string(spec));
  quantizable(c, c.f32(0).shape, axis);
  return {f32_of(c.in[0].shape), {DType::csr, c.in[0].shape, spec, axis}};
}

Types hadamard(const Call& c) {
  const int64_t n = c.attrs.integer("n");
  const Axis axis = parse_axis(c.attrs.text("axis"));
  quantizable(c, c.f32(0).shape, axis);
  const int64_t k = vector_view(c.in[0].shape, axis).length;
  if (n != 16 && n != 32 && n != 64 && n != 128) c.fail(fmt::format("n must be 16, 32, 64 or 128, got {}", n));
  if (k % n != 0) c.fail(fmt::format("the contraction length {} is not a multiple of {}", k, n));
  const std::string& signs = c.attrs.text("signs");
  if (signs != "none" && signs != "fixed16" && signs != "philox") c.fail("unknown signs `" + signs + "`");
  if ((signs == "philox") != (c.in.size() == 2)) c.fail("the step input goes with philox signs, and only with them");
  if (signs == "philox") c.step(1), c.attrs.integer("stream");
  return same_as_first(c);
}

Types scale(const Call& c) {
  c.attrs.number("factor");
  return same_as_first(c);
}

Types cast(const Call& c) {
  const std::string& to = c.attrs.text("to");
  if (to == "bf16" && c.in[0].dtype == DType::f32) return {{DType::bf16, c.in[0].shape, {}, Axis::last}};
  if (to == "f32" && c.in[0].dtype == DType::bf16) return {f32_of(c.in[0].shape)};
  c.fail("no cast of " + to_string(c.in[0]) + " to " + to);
}

Types permute(const Call& c) {
  const Shape view = parse_list(c, "view"), perm = parse_list(c, "perm"), shape = parse_list(c, "shape");
  if (c.in[0].dtype != DType::f32 && c.in[0].dtype != DType::bf16) c.fail("input must be f32 or bf16");
  const int64_t n = element_count(c.in[0].shape);
  if (element_count(view) != n || element_count(shape) != n)
    c.fail(fmt::format("view {} and shape {} must hold {} elements", to_string(view), to_string(shape), n));
  std::vector<bool> seen(view.size());
  for (const int64_t p : perm) {
    if (p >= static_cast<int64_t>(view.size()) || seen[static_cast<size_t>(p)]) c.fail("perm is not a permutation");
    seen[static_cast<size_t>(p)] = true;
  }
  if (perm.size() != view.size()) c.fail("perm and view have different lengths");
  return {{c.in[0].dtype, shape, {}, Axis::last}};
}

Types repeat_kv(const Call& c) {
  c.positive("repeats"), c.positive("groups");
  Shape shape = c.f32(0).shape;
  if (shape.size() != 3 || shape[0] % c.attrs.integer("groups") != 0) c.fail("input must be (batch·groups, S, D)");
  shape[0] *= c.attrs.integer("repeats");
  return {f32_of(shape)};
}

Types repeat_kv_grad(const Call& c) {
  c.positive("repeats"), c.positive("groups");
  Shape shape = c.f32(0).shape;
  const int64_t r = c.attrs.integer("repeats");
  if (shape.size() != 3 || shape[0] % (c.attrs.integer("groups") * r) != 0)
    c.fail("input must be (batch·groups·r, S, D)");
  shape[0] /= r;
  return {f32_of(shape)};
}

Types concat(const Call& c) {
  int64_t n = 0;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (c.f32(i).shape.size() != 1) c.fail("inputs must have one dimension");
    n += c.in[i].shape[0];
  }
  return {f32_of({n})};
}

Types norm_forward(const Call& c) {
  c.f32(0), c.attrs.number("eps");
  for (size_t i = 1; i < c.in.size(); ++i) c.f32(i), c.shape_is(i, {c.last(0)});
  return same_as_first(c);
}

Types norm_grad(const Call& c, size_t parameters) {
  two_alike(c), c.attrs.number("eps");
  c.f32(2), c.shape_is(2, {c.last(0)});
  Types types{f32_of(c.in[0].shape)};
  for (size_t i = 0; i < parameters; ++i) types.push_back(f32_of({c.last(0)}));
  return types;
}
Types rmsnorm_grad(const Call& c) { return norm_grad(c, 1); }
Types layernorm_grad(const Call& c) { return norm_grad(c, 2); }

Types rope(const Call& c) {
  const Shape& x = c.f32(0).shape;
  if (x.size() < 2 || x.back() % 2 != 0) c.fail("x must be (…, S, D) with even D, got " + to_string(x));
  const int64_t s = x[x.size() - 2];
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Shape& table = c.f32(i).shape;
    if (table.size() != 2 || table[0] < s || table[1] != x.back() / 2)
      c.fail(fmt::format("tables must be (≥ {}, {}), got {}", s, x.back() / 2, to_string(table)));
  }
  const std::string& style = c.attrs.text("style");
  if (style != "interleaved" && style != "half") c.fail("unknown style `" + style + "`");
  return same_as_first(c);
}

void square(const Call& c, size_t i) {
  const Shape& s = c.f32(i).shape;
  if (s.size() < 2 || s.back() != s[s.size() - 2]) c.fail("input must be (…, S, S), got " + to_string(s));
  c.attrs.number("scale");
}
Types causal_softmax(const Call& c) { return square(c, 0), same_as_first(c); }
Types causal_softmax_grad(const Call& c) { return square(c, 0), two_alike(c); }

void logits(const Call& c) {
  const Shape& z = c.f32(0).shape;
  if (z.size() != 2 || z[1] < 1) c.fail("logits must be (rows, classes), got " + to_string(z));
  if (c.in[1].dtype != DType::i32) c.fail("targets must be i32");
  c.shape_is(1, {z[0]});
}
Types cross_entropy(const Call& c) { return logits(c), Types{f32_of({c.in[0].shape[0]})}; }
Types cross_entropy_grad(const Call& c) {
  logits(c), c.step(2), c.positive("total_rows");
  return same_as_first(c);
}

Types mean(const Call& c) { return c.f32(0), Types{f32_of({})}; }

Types column_sum(const Call& c) {
  c.positive("columns");
  const int64_t columns = c.attrs.integer("columns");
  if (element_count(c.f32(0).shape) % columns != 0)
    c.fail(fmt::format("{} does not divide into rows of {}", to_string(c.in[0].shape), columns));
  return {f32_of({columns})};
}

Types norm(const Call& c) {
  for (size_t i = 0; i < c.in.size(); ++i) c.f32(i);
  return {f32_of({})};
}

Types clip(const Call& c) {
  c.f32(1), c.shape_is(1, {}), c.step(2);
  return same_as_first(c);
}

Types adamw(const Call& c) {
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) c.f32(i), c.same_shape(0, i);
  c.step(4);
  for (const char* name : {"weight_decay", "beta1", "beta2", "eps"}) c.attrs.number(name);
  return {c.in[0], c.in[1], c.in[2]};
}

constexpr auto add = broadcast, mul = broadcast;
constexpr auto silu = same_as_first, gelu = same_as_first;
constexpr auto silu_grad = two_alike, gelu_grad = two_alike;
constexpr auto rmsnorm = norm_forward, layernorm = norm_forward;

constexpr Rule kRules[] = {
#define FP4SIM_OP(id, inputs, outputs) &*id,
#include "reference/contract/op.def"
#undef FP4SIM_OP
};

/// Least and greatest number of inputs of an op from its row.
std::pair<size_t, size_t> arity(const char* inputs) {
  size_t least = 0, most = 0;
  for (const char* p = inputs;; ++p) {
    if (*p != ',' && *p != '\0') continue;
    const char mark = p > inputs ? p[-1] : ' ';
    least += mark != '?';
    most = mark == '*' ? SIZE_MAX / 2 : most + 1;
    if (*p == '\0') break;
  }
  return {least, most};
}

}  // namespace

std::vector<ValueType> infer_types(Op op, const std::vector<ValueType>& inputs, const Attrs& attrs) {
  const OpRow& row = kOps[static_cast<int>(op)];
  const auto [least, most] = arity(row.inputs);
  if (inputs.size() < least || inputs.size() > most)
    throw Error(fmt::format("{}: takes ({}), got {} inputs", row.name, row.inputs, inputs.size()));
  return kRules[static_cast<int>(op)]({row.name, inputs, attrs});
}

}  // namespace fp4sim
