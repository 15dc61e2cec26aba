// matmul (numerics.md §7): which rule a product follows from the specs of its operands, and which kernel computes it;
// and what its kernels do besides: the sum with a bias, the permute behind it.
#include "gpu/fusions.h"
#include "gpu/matmul_chains.h"
#include "gpu/matmul_digits.h"
#include "gpu/matmul_f64.h"
#include "gpu/matmul_halves.h"
#include "gpu/matmul_int8.h"
#include "gpu/matmul_panels.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/operand.h"
#include "gpu/ops.h"
#include "gpu/permutation.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::gpu {
namespace {

constexpr int kExactBits = 53;  // the budget of exact dots

Axis axis_of(const NodeCall& product, const char* attr) { return parse_axis(product.node.attrs.text(attr)); }

/// (matrices, m, n) and k.
ProductShape shape_of(const NodeCall& product) {
  const Operand a = operand_shape(product.in[0], axis_of(product, "a_axis"));
  const Operand b = operand_shape(product.in[1], axis_of(product, "b_axis"));
  return {a.matrices, a.rows, b.rows, a.k};
}

/// True for e2m1 with e8m0 scales of blocks of 32: the scales fit into the operands.
bool folds(const QuantSpec& s) {
  return s.element == kE2m1 && s.scale == ScaleFormat::e8m0 && contraction_block(s) == 32;
}

/// What becomes of a finished product: where it goes, and what is done on the way.
struct Finish {
  float* y;
  const float* bias = nullptr;
  OutputPlaces places = {};
  Known known = {};
  GroupOutputs group = {};
};

/// One product: operands, axes and rules. Every member function puts one kind of product on the stream. Of a group of
/// products of one kind, shape and places the first stands for all, which are one matrix each.
class Product {
 public:
  Product(std::span<const NodeCall> calls, const Finish& finish, Context& context)
      : calls_(calls),
        a_(calls[0].in[0]),
        b_(calls[0].in[1]),
        axis_a_(axis_of(calls[0], "a_axis")),
        axis_b_(axis_of(calls[0], "b_axis")),
        shape_(shape_of(calls[0])),
        finish_(finish),
        y_(finish.y),
        count_(count_out(calls[0])),
        context_(context) {
    if (calls.size() > 1) shape_.matrices = static_cast<int64_t>(calls.size());
  }

  void run() {
    if (count_ == 0) return;
    if (shape_.k == 0) return context_.zero(y_, 4 * count_);
    if (packed(a_) && packed(b_)) {
      const int64_t block = contraction_block(spec(a_));
      if (block != 0 && block == contraction_block(spec(b_))) return blocks(block);
      if (scaled_by_vector(spec(a_)) && scaled_by_vector(spec(b_))) return vectors();
    }
    const Epilogue epilogue = scaled_epilogue(nullptr, nullptr);
    if (holds_bf16(a_) && holds_bf16(b_))
      return matmul_panels(bf16_operand(a_, axis_a_), bf16_operand(b_, axis_b_), epilogue, y_, context_);
    const Operand a = decoded_operand(a_, axis_a_, context_), b = decoded_operand(b_, axis_b_, context_);
    const bool lower = finish_.known.a_lower;
    matmul_panels(a, b, epilogue, y_, context_,
                  {.a_lower = lower && axis_a_ == Axis::last,
                   .a_upper = lower && axis_a_ == Axis::first,
                   .upper_unread = finish_.known.upper_unread});
  }

 private:
  static bool packed(const Tensor& t) { return t.type.dtype == DType::packed; }
  static const QuantSpec& spec(const Tensor& t) { return t.type.spec; }
  static bool scaled_by_vector(const QuantSpec& s) {
    return s.granularity == Granularity::row || s.granularity == Granularity::tensor;
  }
  static const float* tensor_scale(const Tensor& t) {
    return has_tensor_scale(spec(t)) ? reinterpret_cast<const float*>(device_data(t.parts[2])) : nullptr;
  }

  /// fl(16/9) if both operands have sr34, fl(4/3) if one, else 1 (§6).
  float sr34_factor() const {
    const int operands = (packed(a_) && spec(a_).sr34 ? 1 : 0) + (packed(b_) && spec(b_).sr34 ? 1 : 0);
    return operands == 2 ? 16.0f / 9.0f : operands == 1 ? 4.0f / 3.0f : 1.0f;
  }

  /// True if dots of n products are exact by the budget.
  bool within_budget(int64_t n) const {
    int log2_n = 0;
    while ((int64_t{1} << log2_n) < n) ++log2_n;
    return significand_span_bits(spec(a_).element) + significand_span_bits(spec(b_).element) + log2_n <= kExactBits;
  }

  Epilogue scaled_epilogue(const float* d_a, const float* d_b) const {
    return {{}, {}, d_a, d_b, sr34_factor(), finish_.bias, finish_.places, calls_.size() > 1, finish_.group};
  }
  Epilogue scaled_epilogue() const { return scaled_epilogue(tensor_scale(a_), tensor_scale(b_)); }

  /// True where operands of 4-bit codes go through the warpgroup instructions, whose sums of products are exact.
  bool warpgroups() const {
    return spec(a_).element.bits == 4 && spec(b_).element.bits == 4 && has_warpgroup_products();
  }
  /// True for e2m1 with e4m3 scales of blocks of 16: fp16 holds the products of both.
  static bool fits_halves(const QuantSpec& s) {
    return s.element == kE2m1 && s.scale == ScaleFormat::e4m3 && contraction_block(s) == 16;
  }
  static NarrowOperand narrow(const Tensor& t, Axis axis) {
    const Operand o = operand_shape(t, axis);
    return {view_of(t), axis == Axis::last, o.matrices, o.rows, o.k};
  }
  /// Exponent of a unit of the dots of integers.
  int unit_exponent() const { return min_step_exponent(spec(a_).element) + min_step_exponent(spec(b_).element); }

  /// One side of all products of the group; one operand if they share it.
  std::vector<NarrowOperand> operands(size_t side, Axis axis) const {
    const auto shares = [&](const NodeCall& c) { return c.node.inputs[side] == calls_[0].node.inputs[side]; };
    const size_t count = std::all_of(calls_.begin(), calls_.end(), shares) ? 1 : calls_.size();
    std::vector<NarrowOperand> list;
    for (const NodeCall& c : calls_.first(count)) list.push_back(narrow(c.in[side], axis));
    return list;
  }

  /// The scales go into the operands where they fit; the device decides.
  void folded() {
    const std::vector<NarrowOperand> a = operands(0, axis_a_), b = operands(1, axis_b_);
    const FoldedPair pair = fold_scales(a, b, context_, context_.certifies_small() || !is_small(shape_));
    multiply_folded(pair, direct_product(a, b), shape_, scaled_epilogue(), y_, context_);
  }

  void blocks(int64_t block) {
    if (folds(spec(a_)) && folds(spec(b_)) && warpgroups()) return folded();
    if (fits_halves(spec(a_)) && fits_halves(spec(b_)) && warpgroups()) {
      const HalvesPair halves = widen_halves(narrow(a_, axis_a_), narrow(b_, axis_b_), context_);
      return multiply_halves(halves, shape_, scaled_epilogue(), y_, context_);
    }
    const OperandScales scales_a = operand_scales(a_, axis_a_, block, context_);
    const OperandScales scales_b = operand_scales(b_, axis_b_, block, context_);
    if (int8_takes(spec(a_).element, spec(b_).element, block)) return int8(block, scales_a, scales_b);
    const bool exact = within_budget(block);
    const Operand a = element_operand(a_, axis_a_, exact, context_), b = element_operand(b_, axis_b_, exact, context_);
    if (exact) {
      matmul_f64(a, b, scales_a, scales_b, block, scaled_epilogue(), y_, context_);
    } else {
      matmul_chains(a, b, scales_a, scales_b, block, scaled_epilogue(), y_, context_);
    }
  }

  void vectors() {
    Epilogue epilogue = scaled_epilogue();
    epilogue.scales_a = operand_scales(a_, axis_a_, 0, context_);
    epilogue.scales_b = operand_scales(b_, axis_b_, 0, context_);
    const bool int8_holds = int8_takes(spec(a_).element, spec(b_).element, shape_.k);
    if (int8_holds && warpgroups()) {
      const WidePair units = widen_units(narrow(a_, axis_a_), narrow(b_, axis_b_), context_);
      const int bits = significand_span_bits(spec(a_).element) + significand_span_bits(spec(b_).element);
      return multiply_units(units, shape_, bits, unit_exponent(), epilogue, y_, context_);
    }
    const bool exact = within_budget(shape_.k);
    if (exact && digits_take(spec(a_).element, spec(b_).element) && has_warpgroup_products()) {
      const DigitPair digits =
          widen_digits(narrow(a_, axis_a_), narrow(b_, axis_b_), epilogue.scales_a, epilogue.scales_b, context_);
      return multiply_digits(digits, shape_, unit_exponent(), epilogue, y_, context_);
    }
    if (int8_holds) return int8(0, {}, {}, epilogue);
    if (!exact && elements_lie_in_bytes(spec(a_)) && elements_lie_in_bytes(spec(b_)))
      return matmul_panels(bf16_elements(a_, axis_a_, context_), bf16_elements(b_, axis_b_, context_), epilogue, y_,
                           context_);
    const Operand a = element_operand(a_, axis_a_, exact, context_), b = element_operand(b_, axis_b_, exact, context_);
    if (exact) {
      matmul_f64(a, b, {}, {}, 0, epilogue, y_, context_);
    } else {
      matmul_panels(a, b, epilogue, y_, context_);
    }
  }

  void int8(int64_t block, const OperandScales& scales_a, const OperandScales& scales_b) {
    int8(block, scales_a, scales_b, scaled_epilogue());
  }
  void int8(int64_t block, const OperandScales& scales_a, const OperandScales& scales_b, const Epilogue& epilogue) {
    const UnitOperand units_a = unit_operand(a_, axis_a_, context_), units_b = unit_operand(b_, axis_b_, context_);
    matmul_int8({units_a, scales_a}, {units_b, scales_b}, shape_, block, unit_exponent(), epilogue, y_, context_);
  }

  std::span<const NodeCall> calls_;
  const Tensor& a_;
  const Tensor& b_;
  Axis axis_a_, axis_b_;
  ProductShape shape_;
  const Finish& finish_;
  float* y_;
  int64_t count_;
  Context& context_;
};

// ---- a product with what follows it: the sum with a bias of its columns, a permute ----

bool starts_product(const NodeCall& first) {
  return first.node.op == Op::matmul && count_out(first) > 0 && shape_of(first).k > 0;
}

std::optional<OutputPlaces> places_after(const NodeCall& product, const NodeCall& permute) {
  const ProductShape s = shape_of(product);
  return permuted_places(s.matrices, s.m, s.n, permutation_of(permute.node));
}

bool extends_product(const Chain& chain, const NodeCall& next) {
  const NodeCall product = chain.nodes[0].call();
  const BoundNode& last = chain.nodes.back();
  if (next.node.op == Op::permute) return last.node->op != Op::permute && places_after(product, next).has_value();
  return next.node.op == Op::add && chain.nodes.size() == 1 && next.node.inputs[0] == last.node->outputs[0] &&
         count_in(next, 1) == shape_of(product).n;
}

/// True for products that may be one of a group.
bool groups(const Chain& chain) {
  const NodeCall product = chain.nodes[0].call();
  const auto fits = [](const Tensor& t) { return t.type.dtype == DType::packed && folds(t.type.spec); };
  return fits(product.in[0]) && fits(product.in[1]) && shape_of(product).matrices == 1;
}

/// Values on the way that others read too are stored by their own ops.
bool complete_product(const Chain& chain) {
  const auto end = chain.stored.end() - 1;
  return std::find(chain.stored.begin(), end, true) == end &&
         (chain.nodes.size() > 1 || chain.known != Known{} || groups(chain));
}

bool joins_product(const Chain& a, const Chain& b) {
  if (a.nodes.size() != b.nodes.size() || !groups(a) || !groups(b)) return false;
  for (size_t k = 0; k < a.nodes.size(); ++k)
    if (a.nodes[k].node->op != b.nodes[k].node->op || a.nodes[k].node->attrs != b.nodes[k].node->attrs) return false;
  const NodeCall p = a.nodes[0].call(), q = b.nodes[0].call();
  return p.in[0].type == q.in[0].type && p.in[1].type == q.in[1].type;
}

Finish finish_of(const Chain& chain) {
  Finish finish{.y = out_data<float>(chain.nodes.back().call()), .known = chain.known};
  for (const BoundNode& node : chain.nodes) {
    if (node.node->op == Op::add) finish.bias = in_data<float>(node.call(), 1);
    if (node.node->op == Op::permute) finish.places = *places_after(chain.nodes[0].call(), node.call());
  }
  return finish;
}

void launch_group(std::span<const Chain> chains, Context& context) {
  std::vector<NodeCall> calls;
  Finish finish = finish_of(chains[0]);
  for (size_t i = 0; i < chains.size(); ++i) {
    calls.push_back(chains[i].nodes[0].call());
    const Finish own = finish_of(chains[i]);
    finish.group.y[i] = own.y, finish.group.bias[i] = own.bias;
  }
  Product(calls, finish, context).run();
}

void launch_products(std::span<const Chain> chains, Context& context) {
  if (chains.size() > 1 && has_warpgroup_products()) return launch_group(chains, context);
  for (size_t i = 0; i < chains.size(); ++i) launch_group(chains.subspan(i, 1), context);
}

}  // namespace

void ops::matmul(const NodeCall& call, Context& context) {
  Product({&call, 1}, {.y = out_data<float>(call)}, context).run();
}

const Fusion kProduct{.name = "product",
                      .in_place = false,
                      .starts = starts_product,
                      .extends = extends_product,
                      .complete = complete_product,
                      .together = kMostGrouped,
                      .joins = joins_product,
                      .launch = launch_products};

}  // namespace fp4sim::gpu
