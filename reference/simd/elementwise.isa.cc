// Element-wise kernels: sums, products and the activations of numerics.md §9 (binary64 inside, one rounding).
#include "reference/simd/elementary.h"
#include "reference/simd/kernels_elementwise.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

void add(const float* x, const float* b, float* y, int64_t n) {
  for_vectors(n, [=](int64_t i, auto part) { part.store(y + i, part.load(x + i) + part.load(b + i)); });
}

void mul(const float* x, const float* b, float* y, int64_t n) {
  for_vectors(n, [=](int64_t i, auto part) { part.store(y + i, part.load(x + i) * part.load(b + i)); });
}

void scale(const float* x, float factor, float* y, int64_t n) {
  const F32 f(factor);
  for_vectors(n, [=](int64_t i, auto part) { part.store(y + i, part.load(x + i) * f); });
}

void scale_twice(const float* x, float first, float second, float* y, int64_t n) {
  const F32 f(first), s(second);
  for_vectors(n, [=](int64_t i, auto part) { part.store(y + i, (part.load(x + i) * f) * s); });
}

/// y = fl(formula(x)), the formula in binary64.
template <class Formula>
void map64(const float* x, float* y, int64_t n, Formula formula) {
  for_vectors(n, [=](int64_t i, auto part) {
    const F64x2 wide = widen(part.load(x + i));
    part.store(y + i, narrow({formula(wide.low), formula(wide.high)}));
  });
}

/// dx = fl(dy·fl(slope(x))), the slope in binary64.
template <class Slope>
void grad64(const float* dy, const float* x, float* dx, int64_t n, Slope slope) {
  for_vectors(n, [=](int64_t i, auto part) {
    const F64x2 wide = widen(part.load(x + i));
    part.store(dx + i, part.load(dy + i) * narrow({slope(wide.low), slope(wide.high)}));
  });
}

inline F64 silu64(F64 x) { return x / (F64(1.0) + exp64(negate(x))); }

inline F64 silu_slope(F64 x) {
  const F64 one(1.0);
  const F64 sigma = one / (one + exp64(negate(x)));
  return sigma * (one + x * (one - sigma));
}

/// −2u of numerics.md §9.
inline F64 gelu_argument(F64 x) {
  const F64 u = F64(kSqrt2OverPi) * (x + F64(kGeluCubic) * ((x * x) * x));
  return F64(-2.0) * u;
}

inline F64 gelu64(F64 x) { return x / (F64(1.0) + exp64(gelu_argument(x))); }

inline F64 gelu_slope(F64 x) {
  const F64 one(1.0);
  const F64 sigma = one / (one + exp64(gelu_argument(x)));
  const F64 inner = F64(kSqrt2OverPi) * (one + F64(3.0 * kGeluCubic) * (x * x));
  return sigma + ((F64(2.0) * x) * (sigma * (one - sigma))) * inner;
}

void silu(const float* x, float* y, int64_t n) {
  map64(x, y, n, [](F64 v) { return silu64(v); });
}
void silu_grad(const float* dy, const float* x, float* dx, int64_t n) {
  grad64(dy, x, dx, n, [](F64 v) { return silu_slope(v); });
}
void gelu(const float* x, float* y, int64_t n) {
  map64(x, y, n, [](F64 v) { return gelu64(v); });
}
void gelu_grad(const float* dy, const float* x, float* dx, int64_t n) {
  grad64(dy, x, dx, n, [](F64 v) { return gelu_slope(v); });
}

}  // namespace

const ElementwiseKernels elementwise_kernels = {add, mul, scale, scale_twice, silu, silu_grad, gelu, gelu_grad};

}  // namespace fp4sim::simd::FP4SIM_ISA
