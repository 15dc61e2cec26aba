// add, mul, scale, cast, silu and gelu with their gradients.
#include "gpu/activations.cuh"
#include "gpu/arithmetic.cuh"
#include "gpu/map.cuh"
#include "gpu/ops.h"

namespace fp4sim::gpu::ops {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Scaled {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

/// y[i] = f(x[i], b[i mod period]).
template <class F>
__global__ void map_periodic_kernel(const float* x, const float* b, float* y, int64_t n, int64_t period, F f) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  Four r = load_four(x, i, n);
  int64_t at = i - quotient(i, period) * period;
  for (float& v : r.v) {
    v = f(v, b[at]);
    if (++at == period) at = 0;
  }
  store_four(y, i, n, r);
}

template <class F>
void broadcast(const NodeCall& call, Context& context, F f) {
  const int64_t n = count_in(call, 0), period = count_in(call, 1);
  const float *x = in_data<float>(call, 0), *b = in_data<float>(call, 1);
  float* y = out_data<float>(call);
  if (period == n) return map_pairs(context, x, b, y, n, f);
  context.launch(map_periodic_kernel<F>, context.per_item(ceil_div(n, kVector)), x, b, y, n, period, f);
}

__global__ void to_bf16_kernel(const float* x, uint16_t* y, int64_t n) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  const Four r = load_four(x, i, n);
  if (i + kVector <= n) {
    *reinterpret_cast<ushort4*>(y + i) =
        make_ushort4(bf16_of(r.v[0]), bf16_of(r.v[1]), bf16_of(r.v[2]), bf16_of(r.v[3]));
  } else {
    for (int k = 0; i + k < n; ++k) y[i + k] = bf16_of(r.v[k]);
  }
}

__global__ void from_bf16_kernel(const uint16_t* x, float* y, int64_t n) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  Four r{};
  if (i + kVector <= n) {
    const ushort4 u = *reinterpret_cast<const ushort4*>(x + i);
    r = {{f32_of_bf16(u.x), f32_of_bf16(u.y), f32_of_bf16(u.z), f32_of_bf16(u.w)}};
  } else {
    for (int k = 0; i + k < n; ++k) r.v[k] = f32_of_bf16(x[i + k]);
  }
  store_four(y, i, n, r);
}

struct Silu {
  __device__ float operator()(float x) const { return silu_value(x); }
};
struct SiluGrad {
  __device__ float operator()(float dy, float x) const { return dy * silu_slope(x); }
};
struct Gelu {
  __device__ float operator()(float x) const { return gelu_value(x); }
};
struct GeluGrad {
  __device__ float operator()(float dy, float x) const { return dy * gelu_slope(x); }
};

template <class F>
void unary(const NodeCall& call, Context& context, F f) {
  map(context, in_data<float>(call, 0), out_data<float>(call), count_in(call, 0), f);
}
template <class F>
void binary(const NodeCall& call, Context& context, F f) {
  map_pairs(context, in_data<float>(call, 0), in_data<float>(call, 1), out_data<float>(call), count_in(call, 0), f);
}

}  // namespace

void add(const NodeCall& call, Context& context) { broadcast(call, context, Sum{}); }
void mul(const NodeCall& call, Context& context) { broadcast(call, context, Product{}); }

void scale(const NodeCall& call, Context& context) {
  unary(call, context, Scaled{static_cast<float>(call.node.attrs.number("factor"))});
}

void cast(const NodeCall& call, Context& context) {
  const int64_t n = count_in(call, 0);
  const Grid grid = context.per_item(ceil_div(n, kVector));
  if (call.out[0].type.dtype == DType::bf16) {
    context.launch(to_bf16_kernel, grid, in_data<float>(call, 0), out_data<uint16_t>(call), n);
  } else {
    context.launch(from_bf16_kernel, grid, in_data<uint16_t>(call, 0), out_data<float>(call), n);
  }
}

void silu(const NodeCall& call, Context& context) { unary(call, context, Silu{}); }
void silu_grad(const NodeCall& call, Context& context) { binary(call, context, SiluGrad{}); }
void gelu(const NodeCall& call, Context& context) { unary(call, context, Gelu{}); }
void gelu_grad(const NodeCall& call, Context& context) { binary(call, context, GeluGrad{}); }

}  // namespace fp4sim::gpu::ops
