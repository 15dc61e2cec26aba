// matmul: which of §7's rules applies to the operands, and which engine computes its dots.
#include <algorithm>

#include "reference/contract/host_backend.h"
#include "reference/simd/code_values.h"
#include "reference/simd/ops.h"
#include "reference/simd/product.h"

namespace fp4sim::simd::ops {
namespace {

bool has_vector_scale(const QuantSpec& s) {
  return s.granularity == Granularity::row || s.granularity == Granularity::tensor;
}

/// §7 by the specs alone.
SumRule rule_of(const ValueType& a, const ValueType& b) {
  if (a.dtype != DType::packed || b.dtype != DType::packed) return SumRule::panels;
  const int64_t block = contraction_block(a.spec);
  if (block != 0 && block == contraction_block(b.spec)) return SumRule::blocks;
  return has_vector_scale(a.spec) && has_vector_scale(b.spec) ? SumRule::vectors : SumRule::panels;
}

/// §6: values of an sr34 operand stand for 4/3 of themselves.
float rescale_of(const ValueType& a, const ValueType& b) {
  const auto scaled = [](const ValueType& t) { return t.dtype == DType::packed && t.spec.sr34 ? 1 : 0; };
  constexpr float kFactors[] = {1.0f, 4.0f / 3.0f, 16.0f / 9.0f};
  return kFactors[scaled(a) + scaled(b)];
}

int ceil_log2(int64_t n) {
  int bits = 0;
  while ((int64_t{1} << bits) < n) ++bits;
  return bits;
}

/// How dots of n products of elements of these formats are computed.
struct DotPlan {
  const Engine* engine;
  bool exact;     // else the fp32 rule on element values (§7, beyond the budget)
  bool integers;  // int8 engine: the fields below
  int32_t offset = 0;
  int64_t narrow = 1;
  float unit = 1.0f;
};

const Engine& int8_engine(Level level) {
  return level == Level::avx512vnni ? avx512vnni::i8_engine : pick_i8_narrow_engine(level);
}

/// The int8 engine if elements are bytes of steps, sums fit int32, and the unit leaves results normal.
bool plan_int8(const ElementFormat& a, const ElementFormat& b, int64_t n, Level level, DotPlan* plan) {
  const Engine& engine = int8_engine(level);
  if (engine.mr == 0 || a.specials != Specials::none || b.specials != Specials::none) return false;
  if (significand_span_bits(a) > 7 || significand_span_bits(b) > 7) return false;
  const int64_t largest_a = max_magnitude_steps(a), largest_b = max_magnitude_steps(b);
  const int64_t product = 2 * largest_a * largest_b;  // an offset element of A times one of B
  const int unit = min_step_exponent(a) + min_step_exponent(b);
  if (n > (int64_t{1} << 30) / product || unit < -126 || unit > 64) return false;
  const bool vnni = level == Level::avx512vnni;
  if (!vnni && 2 * product > INT16_MAX) return false;
  *plan = {&engine,
           true,
           true,
           static_cast<int32_t>(largest_a),
           std::max<int64_t>(1, INT16_MAX / (2 * product)),
           static_cast<float>(power_of_two(unit))};
  return true;
}

DotPlan plan_dot(const ElementFormat& a, const ElementFormat& b, int64_t n, Level level, bool allow_int8) {
  const int bits = significand_span_bits(a) + significand_span_bits(b) + ceil_log2(n);
  if (bits > 53) return {&pick_f32_engine(level), false, false};
  DotPlan plan{};
  if (allow_int8 && plan_int8(a, b, n, level, &plan)) return plan;
  const int unit = min_step_exponent(a) + min_step_exponent(b);
  const bool fits_f32 = bits <= 24 && unit >= -149 && unit <= 100;
  return {fits_f32 ? &pick_f32_exact_engine(level) : &pick_f64_engine(level), true, false};
}

/// True if fl((sa·unit)·sb) = fl(sa·sb)·unit exactly for all scales, so that A's may be multiplied by unit beforehand.
bool unit_folds(const ScaleMatrices& a, const ScaleMatrices& b, float unit) {
  constexpr double kSmallestNormal = 0x1p-126, kLimit = 0x1p127;
  const double least = static_cast<double>(a.smallest) * b.smallest, most = static_cast<double>(a.largest) * b.largest;
  const bool normal = least * unit >= kSmallestNormal && static_cast<double>(a.smallest) * unit >= kSmallestNormal;
  if (unit <= 1.0f && (most == 0 || normal) && most <= kLimit) return true;
  if (a.distinct.empty() || b.distinct.empty()) return false;
  for (const float x : a.distinct)
    for (const float y : b.distinct) {
      const float plain = x * y, folded = (x * unit) * y;
      if (plain == plain ? static_cast<double>(folded) != static_cast<double>(plain) * unit : folded == folded)
        return false;
    }
  return true;
}

void plan_scaled(const NodeCall& call, const OperandShape& a, const OperandShape& b, const Context& context,
                 Arena& arena, Product* p) {
  const Tensor &ta = call.in[0], &tb = call.in[1];
  const ElementFormat fa = element_of(ta), fb = element_of(tb);
  p->block = contraction_block(ta.type.spec);
  p->a.scales = operand_scales(ta, a, arena), p->b.scales = operand_scales(tb, b, arena);
  p->a.tensor_scale = tensor_scale(ta), p->b.tensor_scale = tensor_scale(tb);

  const int64_t n = p->rule == SumRule::blocks ? p->block : p->k;
  DotPlan plan = plan_dot(fa, fb, n, context.level, true);
  if (plan.integers && p->rule == SumRule::blocks) {
    if (unit_folds(p->a.scales, p->b.scales, plan.unit))
      for (int64_t i = 0; i < p->matrices * p->a.scales.matrix_stride; ++i) p->a.scales.data[i] *= plan.unit;
    else
      plan = plan_dot(fa, fb, n, context.level, false);
  }
  p->engine = plan.engine, p->unit = plan.unit, p->offset = plan.offset, p->narrow = plan.narrow;
  if (plan.integers) {
    p->a.values = element_steps(ta, a, plan.offset, context, arena);
    p->b.values = element_steps(tb, b, 0, context, arena);
  } else {
    p->a.values = element_values(ta, a, !plan.exact, context, arena);
    p->b.values = element_values(tb, b, !plan.exact, context, arena);
  }
}

}  // namespace

void matmul(const NodeCall& call, const Context& context) {
  const Tensor &ta = call.in[0], &tb = call.in[1];
  const OperandShape a = operand_shape(ta.type, parse_axis(call.node.attrs.text("a_axis")));
  const OperandShape b = operand_shape(tb.type, parse_axis(call.node.attrs.text("b_axis")));
  Product p{};
  p.rule = rule_of(ta.type, tb.type);
  p.matrices = a.matrices, p.m = a.vectors, p.n = b.vectors, p.k = a.k;
  p.a.k_inner = a.k_inner, p.b.k_inner = b.k_inner;
  p.rescale = rescale_of(ta.type, tb.type);
  p.y = out_data<float>(call.out[0]);
  const int64_t outputs = p.matrices * p.m * p.n;
  if (outputs == 0) return;
  if (p.k == 0) {
    std::fill_n(p.y, outputs, 0.0f);
    return;
  }
  Arena& arena = Arena::fresh();
  if (p.rule == SumRule::panels) {
    p.engine = &pick_f32_engine(context.level);
    p.a.values = decoded_operand(ta, a, context, arena);
    p.b.values = decoded_operand(tb, b, context, arena);
  } else {
    plan_scaled(call, a, b, context, arena, &p);
  }
  run_product(p, context, arena);
}

}  // namespace fp4sim::simd::ops
