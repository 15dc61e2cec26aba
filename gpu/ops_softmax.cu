// causal_softmax and cross_entropy with their gradients (numerics.md §9): one warp per row. A lane meets the same
// elements in every pass, so the exponentials of a long row wait for their sum in the output.
#include "gpu/divisor.cuh"
#include "gpu/elementary.cuh"
#include "gpu/ops.h"
#include "gpu/row_passes.cuh"

namespace fp4sim::gpu::ops {
namespace {

constexpr int kBatch = 2;  // elements of a lane whose conditions are one branch

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
#pragma unroll
  for (int k = 0; k < kPer; k += kBatch) {
    if (!row.begins(k)) continue;
    float e[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) e[i] = row.exists(k + i) ? get(k + i) - mx : 0.0f;
    exp_f32_of(e);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) kept[k + i] = e[i];
  }
  return row.sum([&](float acc, int k) { return acc + kept[k]; });
}

/// Where exponentials are kept: the output of a long row, registers of a held one.
__device__ inline float* exponentials_of(const LongRow&, float* output) { return output; }
template <int kPer>
__device__ typename HeldRow<kPer>::Values exponentials_of(const HeldRow<kPer>&, float*) {
  return {};
}

/// The sum of exp(get(i) − mx).
template <class Get>
__device__ float sum_exponentials(const LongRow& row, float mx, const Get& get) {
  return row.sum([&](float acc, int64_t i) { return acc + exp_f32(get(i) - mx); });
}
template <int kPer, class Get>
__device__ float sum_exponentials(const HeldRow<kPer>& row, float mx, const Get& get) {
  typename HeldRow<kPer>::Values kept = {};
  return keep_exponentials(row, kept, mx, get);
}

/// y[i] = get(i) for the elements of a row, +0 behind its end as far as `size`.
template <class Get>
__device__ void store_masked(const LongRow& row, float* y, int64_t n, int64_t size, const Get& get) {
  row.each([&](int64_t i) { y[i] = get(i); });
  for (int64_t i = n + lane_index(); i < size; i += kWarp) y[i] = 0.0f;
}
template <int kPer, class Get>
__device__ void store_masked(const HeldRow<kPer>& row, float* y, int64_t, int64_t size, const Get& get) {
#pragma unroll
  for (int k = 0; k < kPer; ++k)
    if (row.at(k) < size) y[row.at(k)] = row.exists(k) ? get(k) : 0.0f;
}

/// e/sum for exponentials and their sum, which is at least 1 or NaN: where e is not tiny, nothing of the divisor's
/// steps is lost below binary32.
class Share {
 public:
  __device__ explicit Share(float sum) : sum_(sum), divisor_(sum) {}
  __device__ float operator()(float e) const { return quick(e) ? divisor_.quick_quotient(e) : e / sum_; }

  /// The shares of a row's exponentials: operator[](i) is that of element i.
  struct Long {
    const Share* share;
    const float* e;
    __device__ float operator[](int64_t i) const { return (*share)(e[i]); }
  };
  __device__ Long of(const LongRow&, const float* e) const { return {this, e}; }
  template <int kPer>
  __device__ auto of(const HeldRow<kPer>& row, const typename HeldRow<kPer>::Values& e) const {
    typename HeldRow<kPer>::Values shares = {};
#pragma unroll
    for (int k = 0; k < kPer; k += kBatch) {
      if (!row.begins(k)) continue;
      bool all_quick = true;
#pragma unroll
      for (int i = k; i < k + kBatch; ++i) {
        shares[i] = divisor_.quick_quotient(e[i]);
        all_quick &= quick(e[i]) | !row.exists(i);
      }
#pragma unroll
      for (int i = k; i < k + kBatch; ++i) shares[i] = all_quick ? shares[i] : e[i] / sum_;
    }
    return shares;
  }

 private:
  __device__ bool quick(float e) const { return divisor_.quick() & (e >= 0x1p-60f); }

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
  const auto get = [&](auto i) { return z[i] * scale; };
  const float mx = row.max(get);
  auto e = exponentials_of(row, p);
  const Share share(keep_exponentials(row, e, mx, get));
  const auto shares = share.of(row, e);
  store_masked(row, p, n, size, [&](auto i) { return shares[i]; });
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
  const float t = row.sum([&](float acc, auto i) { return fma32(dp[i], p[i], acc); });
  store_masked(row, dz, n, size, [&](auto i) { return (p[i] * (dp[i] - t)) * scale; });
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
  const auto get = [&](auto i) { return z[i]; };
  const float mx = row.max(get);
  const float sum = sum_exponentials(row, mx, get);
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
  const auto p = share.of(row, e);
  const float w = step->loss_scale / total_rows;
  const int64_t target = targets[index];
  const bool valid = target >= 0 && target < classes;
  row.each([&](auto i) { dz[row.at(i)] = valid ? (p[i] - (row.at(i) == target ? 1.0f : 0.0f)) * w : canonical_nan(); });
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
