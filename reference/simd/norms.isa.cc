// Rows of rmsnorm, layernorm and their gradients (numerics.md §9).
#include "reference/simd/fma.h"
#include "reference/simd/kernels_norms.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

inline float root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

/// r = 1/sqrt(rowsum(x·x)/n + eps).
inline float rms_factor(const float* x, int64_t n, float eps) {
  const float squares = row_reduce(0, n, [=](int64_t i, auto part, F32 sum) {
    const F32 v = part.load(x + i);
    return fma(v, v, sum);
  });
  return 1.0f / root(squares / static_cast<float>(n) + eps);
}

struct Moments {
  float mean, r;  // r = 1/sqrt(var + eps)
};

inline Moments moments(const float* x, int64_t n, float eps) {
  const float count = static_cast<float>(n);
  const float mean = row_reduce(0, n, [=](int64_t i, auto part, F32 sum) { return sum + part.load(x + i); }) / count;
  const F32 m(mean);
  const float squares = row_reduce(0, n, [=](int64_t i, auto part, F32 sum) {
    const F32 d = part.load(x + i) - m;
    return fma(d, d, sum);
  });
  return {mean, 1.0f / root(squares / count + eps)};
}

void rmsnorm(const float* x, const float* g, float* y, int64_t rows, int64_t cols, float eps) {
  for (int64_t t = 0; t < rows; ++t, x += cols, y += cols) {
    const F32 r(rms_factor(x, cols, eps));
    for_vectors(cols, [=](int64_t i, auto part) { part.store(y + i, (part.load(x + i) * r) * part.load(g + i)); });
  }
}

void rmsnorm_grad(const float* dy, const float* x, const float* g, float* dx, float* r_out, int64_t rows, int64_t cols,
                  float eps) {
  for (int64_t t = 0; t < rows; ++t, x += cols, dy += cols, dx += cols) {
    const float r = rms_factor(x, cols, eps);
    r_out[t] = r;
    const float products = row_reduce(0, cols, [=](int64_t i, auto part, F32 sum) {
      return fma(part.load(dy + i) * part.load(g + i), part.load(x + i), sum);
    });
    const float c = products / static_cast<float>(cols);
    const F32 k(((r * r) * r) * c), factor(r);
    for_vectors(cols, [=](int64_t i, auto part) {
      const F32 h = part.load(dy + i) * part.load(g + i);
      part.store(dx + i, fma(negate(part.load(x + i)), k, h * factor));
    });
  }
}

void layernorm(const float* x, const float* g, const float* b, float* y, int64_t rows, int64_t cols, float eps) {
  for (int64_t t = 0; t < rows; ++t, x += cols, y += cols) {
    const Moments row = moments(x, cols, eps);
    const F32 mean(row.mean), r(row.r);
    for_vectors(cols, [=](int64_t i, auto part) {
      part.store(y + i, fma((part.load(x + i) - mean) * r, part.load(g + i), part.load(b + i)));
    });
  }
}

void layernorm_grad(const float* dy, const float* x, const float* g, float* dx, float* mean_out, float* r_out,
                    int64_t rows, int64_t cols, float eps) {
  const float count = static_cast<float>(cols);
  for (int64_t t = 0; t < rows; ++t, x += cols, dy += cols, dx += cols) {
    const Moments row = moments(x, cols, eps);
    mean_out[t] = row.mean;
    r_out[t] = row.r;
    const F32 mean(row.mean), r(row.r);
    const F32 a(
        row_reduce(0, cols, [=](int64_t i, auto part, F32 sum) { return sum + part.load(dy + i) * part.load(g + i); }) /
        count);
    const F32 c(row_reduce(0, cols,
                           [=](int64_t i, auto part, F32 sum) {
                             return fma(part.load(dy + i) * part.load(g + i), (part.load(x + i) - mean) * r, sum);
                           }) /
                count);
    for_vectors(cols, [=](int64_t i, auto part) {
      const F32 h = part.load(dy + i) * part.load(g + i);
      const F32 xh = (part.load(x + i) - mean) * r;
      part.store(dx + i, r * ((h - a) - xh * c));
    });
  }
}

}  // namespace

const NormKernels norm_kernels = {rmsnorm, rmsnorm_grad, layernorm, layernorm_grad};

}  // namespace fp4sim::simd::FP4SIM_ISA
