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

/// e[i] = exp(z[i]·factor − top), n elements.
inline void shifted_exp(const float* z, F32 factor, F32 top, float* e, int64_t n) {
  for_groups(
      n,
      [=](int64_t i) {
        F32 v[kGroup];
        for (int k = 0; k < kGroup; ++k) v[k] = Full{}.load(z + i + k * kF32Width) * factor - top;
        exp_f32(v);
        for (int k = 0; k < kGroup; ++k) Full{}.store(e + i + k * kF32Width, v[k]);
      },
      [=](int64_t i, auto part) { part.store(e + i, exp_f32(part.load(z + i) * factor - top)); });
}

/// Writes e = exp(z·factor − top) and returns rowsum(e).
inline float sum_of_exp(const float* z, F32 factor, F32 top, float* e, int64_t n) {
  return row_reduce(
      0, n, [=](int64_t i, auto part, F32 acc) { return acc + part.load(e + i); },
      [=](int64_t first, int64_t count) { shifted_exp(z + first, factor, top, e + first, count); });
}

void softmax(const float* z, float scale, float* p, int64_t used, int64_t all) {
  const F32 factor(scale);
  const F32 top(row_max(used, [=](int64_t i, auto part) { return part.load(z + i) * factor; }));
  const F32 sum(sum_of_exp(z, factor, top, p, used));
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

inline float largest(const float* z, int64_t n) {
  return row_max(n, [=](int64_t i, auto part) { return part.load(z + i); });
}

// The logits are not scaled: a factor of 1 leaves every bit.
float cross_entropy(const float* z, int64_t target, int64_t n) {
  float e[kRowChunk];
  const float top = largest(z, n);
  int64_t base = 0;
  const float sum = row_reduce(
      0, n, [&](int64_t i, auto part, F32 acc) { return acc + part.load(e + (i - base)); },
      [&](int64_t first, int64_t count) {
        base = first;
        shifted_exp(z + first, F32(1.0f), F32(top), e, count);
      });
  return (top + log1(sum)) - z[target];
}

void cross_entropy_grad(const float* z, int64_t target, float weight, float* dz, int64_t n) {
  const float sum = sum_of_exp(z, F32(1.0f), F32(largest(z, n)), dz, n);
  const F32 w(weight), all(sum);
  // Subtracting 0 changes no quotient (they are never −0), so only the target needs it.
  const float hit = (dz[target] / sum - 1.0f) * weight;
  for_vectors(n, [=](int64_t i, auto part) { part.store(dz + i, (part.load(dz + i) / all) * w); });
  dz[target] = hit;
}

}  // namespace

const SoftmaxKernels softmax_kernels = {softmax, softmax_grad, cross_entropy, cross_entropy_grad};

}  // namespace fp4sim::simd::FP4SIM_ISA
