// matmul (numerics.md §7): which rule a product follows from the specs of its operands, and which kernel computes it.
#include "gpu/matmul_chains.h"
#include "gpu/matmul_digits.h"
#include "gpu/matmul_direct.h"
#include "gpu/matmul_f64.h"
#include "gpu/matmul_int8.h"
#include "gpu/matmul_panels.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/operand.h"
#include "gpu/ops.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::gpu {
namespace {

constexpr int kExactBits = 53;  // the budget of exact dots

/// One product: operands, axes and rules. Every member function puts one kind of product on the stream.
class Product {
 public:
  Product(const NodeCall& call, Context& context)
      : a_(call.in[0]),
        b_(call.in[1]),
        axis_a_(parse_axis(call.node.attrs.text("a_axis"))),
        axis_b_(parse_axis(call.node.attrs.text("b_axis"))),
        y_(out_data<float>(call)),
        count_(count_out(call)),
        context_(context) {}

  void run() {
    if (count_ == 0) return;
    if (k() == 0) return context_.zero(y_, 4 * count_);
    if (packed(a_) && packed(b_)) {
      const int64_t block = contraction_block(spec(a_));
      if (block != 0 && block == contraction_block(spec(b_))) return blocks(block);
      if (scaled_by_vector(spec(a_)) && scaled_by_vector(spec(b_))) return vectors();
    }
    const Epilogue epilogue{{}, {}, nullptr, nullptr, sr34_factor()};
    if (holds_bf16(a_) && holds_bf16(b_))
      return matmul_panels(bf16_operand(a_, axis_a_), bf16_operand(b_, axis_b_), epilogue, y_, context_);
    const Operand a = decoded_operand(a_, axis_a_, context_), b = decoded_operand(b_, axis_b_, context_);
    matmul_panels(a, b, epilogue, y_, context_);
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
  int64_t k() const {
    const MatrixView m = matrix_view(a_.type.shape);
    return axis_a_ == Axis::last ? m.cols : m.rows;
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

  Epilogue scaled_epilogue() const { return {{}, {}, tensor_scale(a_), tensor_scale(b_), sr34_factor()}; }

  /// True where operands of 4-bit codes go through the warpgroup instructions, whose sums of products are exact.
  bool warpgroups() const {
    return spec(a_).element.bits == 4 && spec(b_).element.bits == 4 && has_warpgroup_products();
  }
  /// True for e2m1 with e8m0 scales of blocks of 32: the scales fit into the operands.
  static bool folds(const QuantSpec& s) {
    return s.element == kE2m1 && s.scale == ScaleFormat::e8m0 && contraction_block(s) == 32;
  }
  /// True for e2m1 with e4m3 scales of blocks of 16: fp16 holds the products of both.
  static bool fits_halves(const QuantSpec& s) {
    return s.element == kE2m1 && s.scale == ScaleFormat::e4m3 && contraction_block(s) == 16;
  }
  static NarrowOperand narrow(const Tensor& t, Axis axis) {
    const Operand o = operand_shape(t, axis);
    return {view_of(t), axis == Axis::last, o.matrices, o.rows, o.k};
  }
  ProductShape shape() const {
    const Operand a = operand_shape(a_, axis_a_), b = operand_shape(b_, axis_b_);
    return {a.matrices, a.rows, b.rows, a.k};
  }
  /// Exponent of a unit of the dots of integers.
  int unit_exponent() const { return min_step_exponent(spec(a_).element) + min_step_exponent(spec(b_).element); }

  /// The scales go into the operands where they fit; the device decides, and one of two kernels does nothing.
  void folded() {
    const NarrowOperand a = narrow(a_, axis_a_), b = narrow(b_, axis_b_);
    const FoldedPair pair = fold_scales({&a, 1}, {&b, 1}, context_, context_.certifies_small() || !is_small(shape()));
    multiply_folded(pair, shape(), scaled_epilogue(), y_, context_);
    matmul_direct(a, b, pair.unfit, unit_exponent(), scaled_epilogue(), y_, context_);
  }

  void blocks(int64_t block) {
    if (folds(spec(a_)) && folds(spec(b_)) && warpgroups()) return folded();
    if (fits_halves(spec(a_)) && fits_halves(spec(b_)) && warpgroups()) {
      const WidePair halves = widen_halves(narrow(a_, axis_a_), narrow(b_, axis_b_), context_);
      return multiply_halves(halves, shape(), scaled_epilogue(), y_, context_);
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
    const bool int8_holds = int8_takes(spec(a_).element, spec(b_).element, k());
    if (int8_holds && warpgroups()) {
      const WidePair units = widen_units(narrow(a_, axis_a_), narrow(b_, axis_b_), context_);
      const int bits = significand_span_bits(spec(a_).element) + significand_span_bits(spec(b_).element);
      return multiply_units(units, shape(), bits, unit_exponent(), epilogue, y_, context_);
    }
    const bool exact = within_budget(k());
    if (exact && digits_take(spec(a_).element, spec(b_).element) && has_warpgroup_products()) {
      const DigitPair digits =
          widen_digits(narrow(a_, axis_a_), narrow(b_, axis_b_), epilogue.scales_a, epilogue.scales_b, context_);
      return multiply_digits(digits, shape(), unit_exponent(), epilogue, y_, context_);
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
    matmul_int8({units_a, scales_a}, {units_b, scales_b}, shape(), block, unit_exponent(), epilogue, y_, context_);
  }

  const Tensor& a_;
  const Tensor& b_;
  Axis axis_a_, axis_b_;
  float* y_;
  int64_t count_;
  Context& context_;
};

}  // namespace

void ops::matmul(const NodeCall& call, Context& context) { Product(call, context).run(); }

}  // namespace fp4sim::gpu
