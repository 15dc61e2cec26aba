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

constexpr int kEight = 2 * kVector;  // elements of one thread of a cast: 16 bytes of bf16

__global__ void to_bf16_kernel(const float* x, uint16_t* y, int64_t n) {
  const int64_t i = thread_index() * kEight;
  if (i + kEight <= n) {
    const Four low = load_four(x, i, n), high = load_four(x, i + kVector, n);
    const auto pair = [](const Four& f, int k) {
      return uint32_t{bf16_of(f.v[k])} | uint32_t{bf16_of(f.v[k + 1])} << 16;
    };
    *reinterpret_cast<uint4*>(y + i) = make_uint4(pair(low, 0), pair(low, 2), pair(high, 0), pair(high, 2));
  } else {
    for (int64_t k = i; k < n; ++k) y[k] = bf16_of(x[k]);
  }
}

__global__ void from_bf16_kernel(const uint16_t* x, float* y, int64_t n) {
  const int64_t i = thread_index() * kEight;
  if (i + kEight <= n) {
    const uint4 u = *reinterpret_cast<const uint4*>(x + i);
    const auto low = [](uint32_t word) { return float_of(word << 16); };
    const auto high = [](uint32_t word) { return float_of(word & 0xFFFF0000u); };
    store_four(y, i, n, {{low(u.x), high(u.x), low(u.y), high(u.y)}});
    store_four(y, i + kVector, n, {{low(u.z), high(u.z), low(u.w), high(u.w)}});
  } else {
    for (int64_t k = i; k < n; ++k) y[k] = f32_of_bf16(x[k]);
  }
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
  const Grid grid = context.per_item(ceil_div(n, kEight));
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
