// causal_softmax and cross_entropy with their gradients (numerics.md §9): one warp per row. A lane meets the same
// elements in every pass, so the exponentials wait for their sum in the output.
#include "gpu/elementary.cuh"
#include "gpu/ops.h"
#include "gpu/row_sum.cuh"

namespace fp4sim::gpu::ops {
namespace {

/// Writes exp(get(i) − mx) of a row's n elements to e and returns the sum to every lane.
template <class Get>
__device__ float exponentials(int64_t n, float mx, const Get& get, float* e) {
  return sum_of_row(n, [=](float acc, int64_t i) {
    const float v = exp_f32(get(i) - mx);
    e[i] = v;
    return acc + v;
  });
}

__global__ void causal_softmax_kernel(const float* zs, float* ps, int64_t rows, int64_t size, float scale) {
  const int64_t row = warp_index();
  if (row >= rows) return;
  const float* z = zs + row * size;
  float* p = ps + row * size;
  const int64_t n = row - quotient(row, size) * size + 1;  // row i uses columns j ≤ i
  const auto get = [z, scale](int64_t j) { return z[j] * scale; };
  const float mx = max_of_row(n, get);
  const float sum = exponentials(n, mx, get, p);
  for (int64_t j = lane_index(); j < size; j += kWarp) p[j] = j < n ? p[j] / sum : 0.0f;
}

__global__ void causal_softmax_grad_kernel(const float* dps, const float* ps, float* dzs, int64_t rows, int64_t size,
                                           float scale) {
  const int64_t row = warp_index();
  if (row >= rows) return;
  const float *dp = dps + row * size, *p = ps + row * size;
  float* dz = dzs + row * size;
  const int64_t n = row - quotient(row, size) * size + 1;
  const float t = sum_of_row(n, [=](float acc, int64_t i) { return fma32(dp[i], p[i], acc); });
  for (int64_t j = lane_index(); j < size; j += kWarp) dz[j] = j < n ? (p[j] * (dp[j] - t)) * scale : 0.0f;
}

/// The loader has validated the targets; another one gives NaN.
__global__ void cross_entropy_kernel(const float* logits, const int32_t* targets, float* losses, int64_t rows,
                                     int64_t classes) {
  const int64_t row = warp_index();
  if (row >= rows) return;
  const float* z = logits + row * classes;
  const float mx = max_of_row(classes, [z](int64_t j) { return z[j]; });
  const float sum = sum_of_row(classes, [z, mx](float acc, int64_t j) { return acc + exp_f32(z[j] - mx); });
  const int64_t target = targets[row];
  if (lane_index() != 0) return;
  losses[row] = target >= 0 && target < classes ? (mx + log_f32(sum)) - z[target] : canonical_nan();
}

__global__ void cross_entropy_grad_kernel(const float* logits, const int32_t* targets, const StepInfo* step, float* dzs,
                                          int64_t rows, int64_t classes, float total_rows) {
  const int64_t row = warp_index();
  if (row >= rows) return;
  const float* z = logits + row * classes;
  float* dz = dzs + row * classes;
  const auto get = [z](int64_t j) { return z[j]; };
  const float mx = max_of_row(classes, get);
  const float sum = exponentials(classes, mx, get, dz);
  const float w = step->loss_scale / total_rows;
  const int64_t target = targets[row];
  const bool valid = target >= 0 && target < classes;
  for (int64_t j = lane_index(); j < classes; j += kWarp) {
    const float p = dz[j] / sum;
    dz[j] = valid ? (p - (j == target ? 1.0f : 0.0f)) * w : canonical_nan();
  }
}

}  // namespace

void causal_softmax(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const int64_t rows = m.matrices * m.rows;
  context.launch(causal_softmax_kernel, context.per_warp(rows), in_data<float>(call, 0), out_data<float>(call), rows,
                 m.cols, static_cast<float>(call.node.attrs.number("scale")));
}

void causal_softmax_grad(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const int64_t rows = m.matrices * m.rows;
  context.launch(causal_softmax_grad_kernel, context.per_warp(rows), in_data<float>(call, 0), in_data<float>(call, 1),
                 out_data<float>(call), rows, m.cols, static_cast<float>(call.node.attrs.number("scale")));
}

void cross_entropy(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  context.launch(cross_entropy_kernel, context.per_warp(m.rows), in_data<float>(call, 0), in_data<int32_t>(call, 1),
                 out_data<float>(call), m.rows, m.cols);
}

void cross_entropy_grad(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  context.launch(cross_entropy_grad_kernel, context.per_warp(m.rows), in_data<float>(call, 0),
                 in_data<int32_t>(call, 1), in_data<StepInfo>(call, 2), out_data<float>(call), m.rows, m.cols,
                 static_cast<float>(call.node.attrs.integer("total_rows")));
}

}  // namespace fp4sim::gpu::ops
