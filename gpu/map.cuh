// Element-wise kernels: one thread takes four elements in 16-byte accesses (components start at multiples of 64 bytes).
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu {

constexpr int kVector = 4;

/// Four floats that are loaded and stored at once where all four exist.
struct Four {
  float v[kVector];
};

__device__ inline Four four_of(float4 f) { return {{f.x, f.y, f.z, f.w}}; }

__device__ inline Four load_four(const float* x, int64_t i, int64_t n) {
  Four r;
  if (i + kVector <= n) {
    const float4 f = *reinterpret_cast<const float4*>(x + i);
    r.v[0] = f.x, r.v[1] = f.y, r.v[2] = f.z, r.v[3] = f.w;
  } else {
    for (int k = 0; k < kVector; ++k) r.v[k] = i + k < n ? x[i + k] : 0.0f;
  }
  return r;
}

__device__ inline void store_four(float* y, int64_t i, int64_t n, const Four& r) {
  if (i + kVector <= n) {
    *reinterpret_cast<float4*>(y + i) = make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
  } else {
    for (int k = 0; k < kVector; ++k)
      if (i + k < n) y[i + k] = r.v[k];
  }
}

__device__ inline int64_t thread_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

/// y[i] = f(x[i]).
template <class F>
__global__ void map_kernel(const float* x, float* y, int64_t n, F f) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  Four r = load_four(x, i, n);
  for (float& v : r.v) v = f(v);
  store_four(y, i, n, r);
}

/// y[i] = f(a[i], b[i]).
template <class F>
__global__ void map_pairs_kernel(const float* a, const float* b, float* y, int64_t n, F f) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  const Four p = load_four(a, i, n), q = load_four(b, i, n);
  Four r;
  for (int k = 0; k < kVector; ++k) r.v[k] = f(p.v[k], q.v[k]);
  store_four(y, i, n, r);
}

template <class F>
void map(Context& context, const float* x, float* y, int64_t n, F f) {
  context.launch(map_kernel<F>, context.per_item(ceil_div(n, kVector)), x, y, n, f);
}
template <class F>
void map_pairs(Context& context, const float* a, const float* b, float* y, int64_t n, F f) {
  context.launch(map_pairs_kernel<F>, context.per_item(ceil_div(n, kVector)), a, b, y, n, f);
}

}  // namespace fp4sim::gpu
