// The faults of SabotagedBackend. Each is what a wrong kernel would compute: the node with a changed attribute or input
// on the intact backend, its output with one thing undone, or the op recomputed here in the wrong way.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "fuzz/mutants.h"
#include "fuzz/packed_codes.h"
#include "reference/contract/estimator.h"
#include "reference/contract/reduction_order.h"

namespace fp4sim::fuzz {
namespace {

// ---- quantize ----

void tie_away(const SabotagedCall& c) {
  QuantSpec spec = parse_quant_spec(c.call.node.attrs.text("spec"));
  if (spec.rounding == Rounding::rne) spec.rounding = Rounding::rna;
  Attrs attrs = c.call.node.attrs;
  attrs.set("spec", to_string(spec));
  c.run_with(attrs);
}

/// Every stored scale one code (e8m0, e4m3) or one ulp (fp32) off; NaN and the ends of the range stay.
void shift_scales(const SabotagedCall& c, int by) {
  c.run();
  HostValue q = c.output();
  if (is_unscaled(q.type.spec)) return;
  const bool floats = q.type.spec.scale == ScaleFormat::fp32;
  const uint32_t largest = floats ? kF32Max : q.type.spec.scale == ScaleFormat::e8m0 ? 0xFEu : 0x7Eu;
  const int64_t count = static_cast<int64_t>(q.parts[1].size()) / (floats ? 4 : 1);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = floats ? q.data<uint32_t>(1)[i] : q.data<uint8_t>(1)[i];
    const uint32_t moved = bits + static_cast<uint32_t>(by);
    if (bits > largest || moved > largest) continue;
    if (floats)
      q.data<uint32_t>(1)[i] = moved;
    else
      q.data<uint8_t>(1)[i] = static_cast<uint8_t>(moved);
  }
  c.set_output(q);
}
void scale_plus_one(const SabotagedCall& c) { shift_scales(c, 1); }
void scale_minus_one(const SabotagedCall& c) { shift_scales(c, -1); }

void dropped_negative_zero(const SabotagedCall& c) {
  c.run();
  HostValue q = c.output();
  const MatrixView m = matrix_view(q.type.shape);
  const uint32_t negative_zero = 1u << (q.type.spec.element.bits - 1);
  for (int64_t row = 0; row < m.matrices * m.rows; ++row)
    for (int64_t col = 0; col < m.cols; ++col)
      if (get_code(q, row, col) == negative_zero) set_code(q, row, col, 0);
  c.set_output(q);
}

/// The tensor flattened behind four zeros: element i takes the random word of element i + 4. Only where scales do not
/// see the difference (no scale, or one for the tensor) and the tensor begins at row 0; intact elsewhere.
void random_index_off_by_4(const SabotagedCall& c) {
  constexpr int64_t kOff = 4;
  HostValue x = c.input(0);
  const QuantSpec& spec = c.call.out[0].type.spec;
  const bool flat = spec.granularity == Granularity::none || spec.granularity == Granularity::tensor;
  if (!flat || !is_stochastic(spec.rounding) || c.call.node.attrs.integer("row_offset") != 0) return c.run();
  const int64_t n = element_count(x.type.shape);
  HostValue shifted = zero_value({DType::f32, {n + kOff}, {}, Axis::last});
  std::copy(x.parts[0].begin(), x.parts[0].end(), shifted.parts[0].begin() + kOff * 4);
  const OwnedTensor in = place_value(c.inner, shifted);
  const OwnedTensor out = allocate_tensor(c.inner, {DType::packed, {n + kOff}, spec, Axis::last});
  Node node = c.call.node;
  node.attrs.set("axis", "last");
  const Tensor ins[] = {in.tensor, c.call.in[1]};
  c.inner.run({node, ins, std::span(&out.tensor, 1)});
  const HostValue wide = download_value(c.inner, out.tensor);
  HostValue q = zero_value(c.call.out[0].type);
  const int64_t cols = matrix_view(q.type.shape).cols;
  for (int64_t i = 0; i < n; ++i) set_code(q, i / cols, i % cols, get_code(wide, 0, i + kOff));
  for (size_t k = 1; k < q.parts.size(); ++k) q.parts[k] = wide.parts[k];
  c.set_output(q);
}

void row_offset_ignored(const SabotagedCall& c) {
  Attrs attrs = c.call.node.attrs;
  if (attrs.has("row_offset")) attrs.set("row_offset", int64_t{0});
  c.run_with(attrs);
}

/// Scales taken along the other axis; as many of them as the output has room for.
void wrong_axis(const SabotagedCall& c) {
  ValueType type = c.call.out[0].type;
  if (type.shape.size() < 2) return c.run();
  type.axis = type.axis == Axis::last ? Axis::first : Axis::last;
  Attrs attrs = c.call.node.attrs;
  attrs.set("axis", to_string(type.axis));
  c.run_as(type, c.call.in, attrs);
}

void tensor_scale_ignored(const SabotagedCall& c) {
  HostValue q = c.input(0);
  if (has_tensor_scale(q.type.spec)) *q.data<float>(2) = 1.0f;
  c.run_with_input(0, q);
}

// ---- gradients and transforms: a changed attribute ----

void dge_wrong_clip(const SabotagedCall& c) {
  Estimator e = parse_estimator(c.call.node.attrs.text("estimator"));
  e.clip += 1;
  Attrs attrs = c.call.node.attrs;
  attrs.set("estimator", to_string(e));
  c.run_with(attrs);
}

void flip(const SabotagedCall& c, const char* attribute, const char* one, const char* other) {
  Attrs attrs = c.call.node.attrs;
  attrs.set(attribute, attrs.text(attribute) == one ? other : one);
  c.run_with(attrs);
}
void rope_style_swapped(const SabotagedCall& c) { flip(c, "style", "half", "interleaved"); }

void signs_on_the_wrong_side(const SabotagedCall& c) {
  Attrs attrs = c.call.node.attrs;
  attrs.set("inverse", 1 - attrs.integer_or("inverse", 0));
  c.run_with(attrs);
}

void one_row_too_many(const SabotagedCall& c) {
  Attrs attrs = c.call.node.attrs;
  attrs.set("total_rows", attrs.integer("total_rows") + 1);
  c.run_with(attrs);
}

void eps_omitted(const SabotagedCall& c) {
  Attrs attrs = c.call.node.attrs;
  attrs.set("eps", 0.0);
  c.run_with(attrs);
}

void skip_ignored(const SabotagedCall& c) {
  HostValue step = c.input(4);
  step.data<StepInfo>()->skip = 0;
  c.run_with_input(4, step);
}

// ---- sums in another order ----

/// rowsum of up to one chunk of elements with the lanes combined by `combine`.
template <class Combine>
float lane_sum(const float* x, int64_t n, Combine combine) {
  std::array<float, kLanes> lanes{};
  for (int64_t i = 0; i < n; ++i) lanes[static_cast<size_t>(i % kLanes)] += x[i];
  return combine(lanes);
}

template <class Combine>
float row_sum(const float* x, int64_t n, Combine combine) {
  if (n <= kRowChunk) return lane_sum(x, n, combine);
  std::vector<float> chunks;
  for (int64_t i = 0; i < n; i += kRowChunk) chunks.push_back(lane_sum(x + i, std::min(kRowChunk, n - i), combine));
  return row_sum(chunks.data(), static_cast<int64_t>(chunks.size()), combine);
}

template <class Combine>
void mean_with(const SabotagedCall& c, Combine combine) {
  const HostValue x = c.input(0);
  const int64_t n = element_count(x.type.shape);
  HostValue y = zero_value(c.call.out[0].type);
  *y.data<float>() = row_sum(x.data<float>(), n, combine) / static_cast<float>(n);
  c.set_output(y);
}

void lane_tree_reversed(const SabotagedCall& c) {
  mean_with(c, [](std::array<float, kLanes> lanes) {
    for (size_t h = 1; h < kLanes; h *= 2)  // neighbours first instead of halves first
      for (size_t l = 0; l < kLanes; l += 2 * h) lanes[l] += lanes[l + h];
    return lanes[0];
  });
}

void lanes_summed_sequentially(const SabotagedCall& c) {
  mean_with(c, [](const std::array<float, kLanes>& lanes) {
    float sum = lanes[0];
    for (size_t l = 1; l < kLanes; ++l) sum += lanes[l];
    return sum;
  });
}

void column_panels_reversed(const SabotagedCall& c) {
  const HostValue x = c.input(0);
  const int64_t columns = c.call.node.attrs.integer("columns"), rows = element_count(x.type.shape) / columns;
  HostValue y = zero_value(c.call.out[0].type);
  for (int64_t col = 0; col < columns; ++col) {
    std::vector<float> panels;
    for (int64_t row = 0; row < rows; ++row) {
      if (row % kPanel == 0) panels.push_back(0);
      panels.back() += x.data<float>()[row * columns + col];
    }
    float sum = panels.empty() ? 0.0f : panels.back();
    for (size_t p = panels.size(); p-- > 1;) sum += panels[p - 1];
    y.data<float>()[col] = sum;
  }
  c.set_output(y);
}

/// The product of two f32 operands with the panels' sums combined by `combine` and each step by `multiply_add`.
template <class MultiplyAdd, class Combine>
void product(const SabotagedCall& c, MultiplyAdd multiply_add, Combine combine) {
  const HostValue a = c.input(0), b = c.input(1);
  if (a.type.dtype != DType::f32 || b.type.dtype != DType::f32) return c.run();
  const VectorView va = vector_view(a.type.shape, parse_axis(c.call.node.attrs.text("a_axis")));
  const VectorView vb = vector_view(b.type.shape, parse_axis(c.call.node.attrs.text("b_axis")));
  HostValue y = zero_value(c.call.out[0].type);
  const MatrixView m = matrix_view(y.type.shape);
  for (int64_t i = 0; i < m.matrices * m.rows * m.cols; ++i) {
    const int64_t matrix = i / (m.rows * m.cols), row = i / m.cols % m.rows, col = i % m.cols;
    const float* pa = a.data<float>() + va.begin(matrix * m.rows + row);
    const float* pb = b.data<float>() + vb.begin(matrix * m.cols + col);
    std::vector<float> panels;
    for (int64_t k = 0; k < va.length; ++k) {
      if (k % kPanel == 0) panels.push_back(0);
      panels.back() = multiply_add(pa[k * va.stride], pb[k * vb.stride], panels.back());
    }
    y.data<float>()[i] = combine(panels);
  }
  c.set_output(y);
}

float ascending(const std::vector<float>& panels) {
  float sum = panels.empty() ? 0.0f : panels[0];
  for (size_t p = 1; p < panels.size(); ++p) sum += panels[p];
  return sum;
}

void unfused_multiply_add(const SabotagedCall& c) {
  product(
      c, [](float a, float b, float acc) { return a * b + acc; }, ascending);
}

void panel_order_reversed(const SabotagedCall& c) {
  product(
      c, [](float a, float b, float acc) { return std::fma(a, b, acc); },
      [](const std::vector<float>& panels) {
        return ascending({panels.rbegin(), panels.rend()});
      });
}

void embedding_grad_without_panels(const SabotagedCall& c) {
  const HostValue ids = c.input(0), dy = c.input(1);
  HostValue table = zero_value(c.call.out[0].type);
  const int64_t width = dy.type.shape[1];
  for (int64_t t = 0; t < dy.type.shape[0]; ++t)
    for (int64_t col = 0; col < width; ++col)
      table.data<float>()[ids.data<int32_t>()[t] * width + col] += dy.data<float>()[t * width + col];
  c.set_output(table);
}

// ---- single elements ----

void bf16_truncated(const SabotagedCall& c) {
  if (c.call.node.attrs.text("to") != "bf16") return c.run();
  const HostValue x = c.input(0);
  HostValue y = zero_value(c.call.out[0].type);
  for (int64_t i = 0; i < element_count(x.type.shape); ++i)
    y.data<uint16_t>()[i] = static_cast<uint16_t>(x.data<uint32_t>()[i] >> 16);
  c.set_output(y);
}

void subnormals_flushed(const SabotagedCall& c) {
  c.run();
  HostValue y = c.output();
  constexpr uint32_t kMinNormal = 0x00800000u;
  for (int64_t i = 0; i < element_count(y.type.shape); ++i) {
    uint32_t& bits = y.data<uint32_t>()[i];
    if ((bits & kF32MagnitudeMask) < kMinNormal) bits &= kF32SignBit;
  }
  c.set_output(y);
}

/// The first element keeps what the last run of the op left there.
void stale_output(const SabotagedCall& c) {
  c.run();
  HostValue y = c.output();
  if (!c.previous_outputs.empty() && !y.parts[0].empty() && !c.previous_outputs[0].parts[0].empty())
    std::copy_n(c.previous_outputs[0].parts[0].begin(), 4, y.parts[0].begin());
  c.set_output(y);
}

}  // namespace

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> table = [] {
    std::vector<Mutant> all = {
        {"tie_away", Op::quantize, 80, "ties rounded away from zero instead of to the even code", tie_away},
        {"scale_plus_one", Op::quantize, 10, "stored scales one code too high", scale_plus_one},
        {"scale_minus_one", Op::quantize, 10, "stored scales one code too low", scale_minus_one},
        {"dropped_negative_zero", Op::quantize, 20, "-0 stored as +0", dropped_negative_zero},
        {"random_index_off_by_4", Op::quantize, 60, "random words of element i + 4", random_index_off_by_4},
        {"row_offset_ignored", Op::quantize, 60, "random words of a tensor that begins at row 0", row_offset_ignored},
        {"wrong_axis", Op::quantize, 20, "blocks along the other axis", wrong_axis},
        {"tensor_scale_ignored", Op::dequantize, 150, "the tensor scale of a two-level format left out",
         tensor_scale_ignored},
        {"dge_wrong_clip", Op::estimator_grad, 40, "the largest multiplier of dge one too high", dge_wrong_clip},
        {"signs_on_the_wrong_side", Op::hadamard, 20, "signs after the butterflies", signs_on_the_wrong_side},
        {"rope_style_swapped", Op::rope, 10, "interleaved pairs for half-split ones", rope_style_swapped},
        {"unfused_multiply_add", Op::matmul, 100, "product and sum rounded separately", unfused_multiply_add},
        {"panel_order_reversed", Op::matmul, 250, "panels of k added in descending order", panel_order_reversed},
        {"column_panels_reversed", Op::column_sum, 200, "panels of rows added in descending order",
         column_panels_reversed},
        {"embedding_grad_without_panels", Op::embedding_grad, 100, "one chain over all positions",
         embedding_grad_without_panels},
        {"lane_tree_reversed", Op::mean, 20, "neighbouring lanes added first", lane_tree_reversed},
        {"lanes_summed_sequentially", Op::mean, 20, "lanes added one after the other", lanes_summed_sequentially},
        {"one_row_too_many", Op::cross_entropy_grad, 10, "the weight's rows counted one too high", one_row_too_many},
        {"eps_omitted", Op::rmsnorm, 20, "1/sqrt(ms) without eps", eps_omitted},
        {"skip_ignored", Op::adamw, 40, "parameters updated in a skipped step", skip_ignored},
        {"bf16_truncated", Op::cast, 10, "bfloat16 by cutting bits off", bf16_truncated},
        {"subnormals_flushed", Op::mul, 40, "subnormal results flushed to zero", subnormals_flushed},
        {"stale_output", Op::silu, 10, "an element left from the last run", stale_output},
    };
    const std::vector<Mutant> formats = format_mutants();
    all.insert(all.end(), formats.begin(), formats.end());
    return all;
  }();
  return table;
}

}  // namespace fp4sim::fuzz
