// causal_softmax and cross_entropy with their gradients (numerics.md §9): one warp per row. A lane meets the same
// elements in every pass, so the exponentials of a long row wait for their sum in the output.
#include "gpu/divisor.cuh"
#include "gpu/elementary.cuh"
#include "gpu/ops.h"
#include "gpu/row_passes.cuh"

namespace fp4sim::gpu::ops {
namespace {

/// exp(get(i) − mx) of a row's elements, kept until their sum is known, which every lane gets.
template <class Get>
__device__ float keep_exponentials(const LongRow& row, float* kept, float mx, const Get& get) {
  return row.sum([&](float acc, int64_t i) {
    const float e = exp_f32(get(i) - mx);
    kept[i] = e;
    return acc + e;
  });
}
template <int kPer, class Get>
__device__ float keep_exponentials(const HeldRow<kPer>& row, typename HeldRow<kPer>::Values& kept, float mx,
                                   const Get& get) {
  row.each([&](int k) { kept[k] = exp_f32(get(k) - mx); });
  return row.sum([&](float acc, int k) { return acc + kept[k]; });
}

/// Where exponentials are kept: the output of a long row, registers of a held one.
__device__ inline float* exponentials_of(const LongRow&, float* output) { return output; }
template <int kPer>
__device__ typename HeldRow<kPer>::Values exponentials_of(const HeldRow<kPer>&, float*) {
  return {};
}

/// Elements n and up of a row of `size` are +0.
__device__ inline void mask_row(float* y, int64_t n, int64_t size) {
  const int64_t from = n / kWarp * kWarp + lane_index();
  for (int64_t j = from < n ? from + kWarp : from; j < size; j += kWarp) y[j] = 0.0f;
}

/// e/sum for exponentials and their sum, which is at least 1 or NaN: where e is not tiny, nothing of the divisor's
/// steps is lost below binary32.
class Share {
 public:
  __device__ explicit Share(float sum) : sum_(sum), divisor_(sum) {}
  __device__ float operator()(float e) const { return e >= 0x1p-60f ? divisor_.quotient_of(e) : e / sum_; }

 private:
  float sum_;
  Divisor divisor_;
};

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    causal_softmax_kernel(const float* zs, float* ps, int64_t rows, int64_t size, float scale) {
  const int64_t index = warp_index();
  if (index >= rows) return;
  const int64_t n = index - quotient(index, size) * size + 1;  // row i uses columns j ≤ i
  const Row row(n);
  const auto z = row.values(zs + index * size);
  float* p = ps + index * size;
  mask_row(p, n, size);
  const auto get = [&](auto i) { return z[i] * scale; };
  const float mx = row.max(get);
  auto e = exponentials_of(row, p);
  const Share share(keep_exponentials(row, e, mx, get));
  row.each([&](auto i) { p[row.at(i)] = share(e[i]); });
}

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    causal_softmax_grad_kernel(const float* dps, const float* ps, float* dzs, int64_t rows, int64_t size, float scale) {
  const int64_t index = warp_index();
  if (index >= rows) return;
  const int64_t n = index - quotient(index, size) * size + 1;
  const Row row(n);
  const auto dp = row.values(dps + index * size), p = row.values(ps + index * size);
  float* dz = dzs + index * size;
  mask_row(dz, n, size);
  const float t = row.sum([&](float acc, auto i) { return fma32(dp[i], p[i], acc); });
  row.each([&](auto i) { dz[row.at(i)] = (p[i] * (dp[i] - t)) * scale; });
}

/// The loader has validated the targets; another one gives NaN.
template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(const float* logits, const int32_t* targets, float* losses, int64_t rows, int64_t classes) {
  const int64_t index = warp_index();
  if (index >= rows) return;
  const Row row(classes);
  const float* memory = logits + index * classes;
  const auto z = row.values(memory);
  const float mx = row.max([&](auto i) { return z[i]; });
  const float sum = row.sum([&](float acc, auto i) { return acc + exp_f32(z[i] - mx); });
  const int64_t target = targets[index];
  if (lane_index() != 0) return;
  losses[index] = target >= 0 && target < classes ? (mx + log_f32(sum)) - memory[target] : canonical_nan();
}

template <class Row>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_grad_kernel(const float* logits, const int32_t* targets, const StepInfo* step, float* dzs,
                              int64_t rows, int64_t classes, float total_rows) {
  const int64_t index = warp_index();
  if (index >= rows) return;
  const Row row(classes);
  const auto z = row.values(logits + index * classes);
  float* dz = dzs + index * classes;
  const auto get = [&](auto i) { return z[i]; };
  const float mx = row.max(get);
  auto e = exponentials_of(row, dz);
  const Share share(keep_exponentials(row, e, mx, get));
  const float w = step->loss_scale / total_rows;
  const int64_t target = targets[index];
  const bool valid = target >= 0 && target < classes;
  row.each([&](auto i) {
    const float p = share(e[i]);
    dz[row.at(i)] = valid ? (p - (row.at(i) == target ? 1.0f : 0.0f)) * w : canonical_nan();
  });
}

}  // namespace

void causal_softmax(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const int64_t rows = m.matrices * m.rows;
  with_row_kind(m.cols, [&]<class Row>(std::type_identity<Row>) {
    context.launch(causal_softmax_kernel<Row>, row_grid(rows), in_data<float>(call, 0), out_data<float>(call), rows,
                   m.cols, static_cast<float>(call.node.attrs.number("scale")));
  });
}

void causal_softmax_grad(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const int64_t rows = m.matrices * m.rows;
  with_row_kind(m.cols, [&]<class Row>(std::type_identity<Row>) {
    context.launch(causal_softmax_grad_kernel<Row>, row_grid(rows), in_data<float>(call, 0), in_data<float>(call, 1),
                   out_data<float>(call), rows, m.cols, static_cast<float>(call.node.attrs.number("scale")));
  });
}

void cross_entropy(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  with_row_kind(m.cols, [&]<class Row>(std::type_identity<Row>) {
    context.launch(cross_entropy_kernel<Row>, row_grid(m.rows), in_data<float>(call, 0), in_data<int32_t>(call, 1),
                   out_data<float>(call), m.rows, m.cols);
  });
}

void cross_entropy_grad(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  with_row_kind(m.cols, [&]<class Row>(std::type_identity<Row>) {
    context.launch(cross_entropy_grad_kernel<Row>, row_grid(m.rows), in_data<float>(call, 0), in_data<int32_t>(call, 1),
                   in_data<StepInfo>(call, 2), out_data<float>(call), m.rows, m.cols,
                   static_cast<float>(call.node.attrs.integer("total_rows")));
  });
}

}  // namespace fp4sim::gpu::ops
