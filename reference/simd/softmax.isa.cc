// Rows of causal_softmax and cross_entropy (numerics.md §9). A NaN in a row makes its sum, and so the whole row, NaN.
#include "reference/simd/elementary.h"
#include "reference/simd/fma.h"
#include "reference/simd/kernels_softmax.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

inline void zero(float* p, int64_t n) {
  for_vectors(n, [=](int64_t i, auto part) { part.store(p + i, F32(0.0f)); });
}

void softmax(const float* z, float scale, float* p, int64_t used, int64_t all) {
  const F32 factor(scale);
  const F32 top(row_max(used, [=](int64_t i, auto part) { return part.load(z + i) * factor; }));
  const F32 sum(row_reduce(0, used, [=](int64_t i, auto part, F32 acc) {
    const F32 e = exp_f32(part.load(z + i) * factor - top);
    part.store(p + i, e);
    return acc + e;
  }));
  for_vectors(used, [=](int64_t i, auto part) { part.store(p + i, part.load(p + i) / sum); });
  zero(p + used, all - used);
}

void softmax_grad(const float* dp, const float* p, float scale, float* dz, int64_t used, int64_t all) {
  const F32 factor(scale);
  const F32 t(row_reduce(0, used,
                         [=](int64_t i, auto part, F32 acc) { return fma(part.load(dp + i), part.load(p + i), acc); }));
  for_vectors(used,
              [=](int64_t i, auto part) { part.store(dz + i, (part.load(p + i) * (part.load(dp + i) - t)) * factor); });
  zero(dz + used, all - used);
}

inline float log1(float x) {
  float lanes[kF32Width];
  log_f32(F32(x)).store_unaligned(lanes);
  return lanes[0];
}

float cross_entropy(const float* z, int64_t target, int64_t n) {
  const float top = row_max(n, [=](int64_t i, auto part) { return part.load(z + i); });
  const float sum =
      row_reduce(0, n, [=](int64_t i, auto part, F32 acc) { return acc + exp_f32(part.load(z + i) - F32(top)); });
  return (top + log1(sum)) - z[target];
}

void cross_entropy_grad(const float* z, int64_t target, float weight, float* dz, int64_t n) {
  const F32 top(row_max(n, [=](int64_t i, auto part) { return part.load(z + i); }));
  const F32 sum(row_reduce(0, n, [=](int64_t i, auto part, F32 acc) {
    const F32 e = exp_f32(part.load(z + i) - top);
    part.store(dz + i, e);
    return acc + e;
  }));
  const F32 w(weight);
  // Subtracting 0 changes no quotient (they are never −0), so only the target needs it.
  const float hit = dz[target];
  for_vectors(n, [=](int64_t i, auto part) { part.store(dz + i, (part.load(dz + i) / sum) * w); });
  float lanes[kF32Width];
  sum.store_unaligned(lanes);
  dz[target] = (hit / lanes[0] - 1.0f) * weight;
}

}  // namespace

const SoftmaxKernels softmax_kernels = {softmax, softmax_grad, cross_entropy, cross_entropy_grad};

}  // namespace fp4sim::simd::FP4SIM_ISA
