// causal_softmax and cross_entropy with their gradients: rows to threads.
#include "reference/contract/step_info.h"
#include "reference/simd/kernels_softmax.h"
#include "reference/simd/ops_support.h"

namespace fp4sim::simd::ops {
namespace {

/// Calls row(first element of the row, elements that count) for every row of every (S, S) matrix. Row i counts i + 1
/// elements, so rows i and S−1−i go together to keep threads even.
template <class Row>
void for_causal_rows(const NodeCall& call, const Context& context, Row row) {
  const MatrixView view = matrix_view(call.in[0].type.shape);
  const int64_t n = view.cols, pairs = (n + 1) / 2;
  parallel_for(context, view.matrices * pairs, row_grain(4 * n), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t base = i / pairs * n * n, low = i % pairs, high = n - 1 - low;
      row(base + low * n, low + 1);
      if (high != low) row(base + high * n, high + 1);
    }
  });
}

/// The targets of a cross entropy over logits (rows, classes), checked.
const int32_t* targets_of(const NodeCall& call, const char* op) {
  const Shape& logits = call.in[0].type.shape;
  const auto* targets = in_data<int32_t>(call.in[1]);
  check_indices(op, "target", targets, logits[0], logits[1]);
  return targets;
}

}  // namespace

void causal_softmax(const NodeCall& call, const Context& context) {
  const auto kernel = pick_softmax_kernels(context.level).softmax;
  const auto scale = static_cast<float>(call.node.attrs.number("scale"));
  const int64_t n = matrix_view(call.in[0].type.shape).cols;
  const float* z = f32_in(call, 0);
  float* p = f32_out(call);
  for_causal_rows(call, context, [=](int64_t first, int64_t used) { kernel(z + first, scale, p + first, used, n); });
}

void causal_softmax_grad(const NodeCall& call, const Context& context) {
  const auto kernel = pick_softmax_kernels(context.level).softmax_grad;
  const auto scale = static_cast<float>(call.node.attrs.number("scale"));
  const int64_t n = matrix_view(call.in[0].type.shape).cols;
  const float *dp = f32_in(call, 0), *p = f32_in(call, 1);
  float* dz = f32_out(call);
  for_causal_rows(call, context,
                  [=](int64_t first, int64_t used) { kernel(dp + first, p + first, scale, dz + first, used, n); });
}

void cross_entropy(const NodeCall& call, const Context& context) {
  const auto kernel = pick_softmax_kernels(context.level).cross_entropy;
  const int64_t rows = call.in[0].type.shape[0], n = call.in[0].type.shape[1];
  const int32_t* targets = targets_of(call, "cross_entropy");
  const float* z = f32_in(call, 0);
  float* losses = f32_out(call);
  parallel_for(context, rows, row_grain(4 * n), [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) losses[t] = kernel(z + t * n, targets[t], n);
  });
}

void cross_entropy_grad(const NodeCall& call, const Context& context) {
  const auto kernel = pick_softmax_kernels(context.level).cross_entropy_grad;
  const int64_t rows = call.in[0].type.shape[0], n = call.in[0].type.shape[1];
  const int32_t* targets = targets_of(call, "cross_entropy_grad");
  const float weight =
      in_data<StepInfo>(call.in[2])->loss_scale / static_cast<float>(call.node.attrs.integer("total_rows"));
  const float* z = f32_in(call, 0);
  float* dz = f32_out(call);
  parallel_for(context, rows, row_grain(4 * n), [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) kernel(z + t * n, targets[t], weight, dz + t * n, n);
  });
}

}  // namespace fp4sim::simd::ops
