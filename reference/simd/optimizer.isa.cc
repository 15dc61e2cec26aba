// AdamW (numerics.md §9) and the chunk sums of whole tensors.
#include "reference/simd/fma.h"
#include "reference/simd/kernels_optimizer.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

void adamw(const AdamwStep& step, const float* g, float* p, float* m, float* v, int64_t n) {
  const F32 decay(step.decay), beta1(step.beta1), rest1(step.rest1), beta2(step.beta2), rest2(step.rest2);
  const F32 rate(step.rate), root(step.root), eps(step.eps);
  for_vectors(n, [=](int64_t i, auto part) {
    const F32 grad = part.load(g + i);
    const F32 first = beta1 * part.load(m + i) + rest1 * grad;
    const F32 second = beta2 * part.load(v + i) + rest2 * (grad * grad);
    part.store(m + i, first);
    part.store(v + i, second);
    part.store(p + i, part.load(p + i) * decay - rate * (first / (xsimd::sqrt(second) / root + eps)));
  });
}

template <class Step>
inline void chunks(float* sums, int64_t n, const Step& step) {
  for (int64_t begin = 0; begin < n; begin += kRowChunk)
    *sums++ = chunk_reduce(begin, n - begin < kRowChunk ? n - begin : kRowChunk, step);
}

void chunk_sums(const float* x, float* sums, int64_t n) {
  chunks(sums, n, [=](int64_t i, auto part, F32 acc) { return acc + part.load(x + i); });
}

void chunk_squares(const float* x, float* sums, int64_t n) {
  chunks(sums, n, [=](int64_t i, auto part, F32 acc) {
    const F32 value = part.load(x + i);
    return fma(value, value, acc);
  });
}

}  // namespace

const OptimizerKernels optimizer_kernels = {adamw, chunk_sums, chunk_squares};

}  // namespace fp4sim::simd::FP4SIM_ISA
