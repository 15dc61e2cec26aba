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

/// Replaces x by fl(formula(x)), the formula in binary64.
template <class Formula, int N>
inline void apply64(const Formula& formula, F32 (&x)[N]) {
  F64 wide[2 * N];
  widen(x, wide);
  formula(wide);
  narrow(wide, x);
}

/// y = fl(formula(x)).
template <class Formula>
void map64(const float* x, float* y, int64_t n, Formula formula) {
  for_groups(
      n,
      [=](int64_t i) {
        F32 v[kGroup];
        for (int k = 0; k < kGroup; ++k) v[k] = Full{}.load(x + i + k * kF32Width);
        apply64(formula, v);
        for (int k = 0; k < kGroup; ++k) Full{}.store(y + i + k * kF32Width, v[k]);
      },
      [=](int64_t i, auto part) {
        F32 v[1] = {part.load(x + i)};
        apply64(formula, v);
        part.store(y + i, v[0]);
      });
}

/// dx = fl(dy·fl(slope(x))).
template <class Slope>
void grad64(const float* dy, const float* x, float* dx, int64_t n, Slope slope) {
  for_groups(
      n,
      [=](int64_t i) {
        F32 v[kGroup];
        for (int k = 0; k < kGroup; ++k) v[k] = Full{}.load(x + i + k * kF32Width);
        apply64(slope, v);
        for (int k = 0; k < kGroup; ++k)
          Full{}.store(dx + i + k * kF32Width, Full{}.load(dy + i + k * kF32Width) * v[k]);
      },
      [=](int64_t i, auto part) {
        F32 v[1] = {part.load(x + i)};
        apply64(slope, v);
        part.store(dx + i, part.load(dy + i) * v[0]);
      });
}

/// −2u of numerics.md §9.
inline F64 gelu_argument(F64 x) {
  const F64 u = F64(kSqrt2OverPi) * (x + F64(kGeluCubic) * ((x * x) * x));
  return F64(-2.0) * u;
}

/// x/(1 + exp64(argument(x))) for the arguments of silu and gelu.
template <class Argument, int K>
inline void gate64(Argument argument, F64 (&x)[K]) {
  F64 e[K];
  for (int k = 0; k < K; ++k) e[k] = argument(x[k]);
  exp64(e);
  for (int k = 0; k < K; ++k) x[k] = x[k] / (F64(1.0) + e[k]);
}

/// d(x, σ) with σ = 1/(1 + exp64(argument(x))).
template <class Argument, class Derivative, int K>
inline void slope64(Argument argument, Derivative derivative, F64 (&x)[K]) {
  const F64 one(1.0);
  F64 e[K];
  for (int k = 0; k < K; ++k) e[k] = argument(x[k]);
  exp64(e);
  for (int k = 0; k < K; ++k) x[k] = derivative(x[k], one / (one + e[k]));
}

inline F64 silu_slope(F64 x, F64 sigma) {
  const F64 one(1.0);
  return sigma * (one + x * (one - sigma));
}

inline F64 gelu_slope(F64 x, F64 sigma) {
  const F64 one(1.0);
  const F64 inner = F64(kSqrt2OverPi) * (one + F64(3.0 * kGeluCubic) * (x * x));
  return sigma + ((F64(2.0) * x) * (sigma * (one - sigma))) * inner;
}

constexpr auto kSiluArgument = [](F64 x) { return negate(x); };
constexpr auto kGeluArgument = [](F64 x) { return gelu_argument(x); };
constexpr auto kSiluSlope = [](F64 x, F64 sigma) { return silu_slope(x, sigma); };
constexpr auto kGeluSlope = [](F64 x, F64 sigma) { return gelu_slope(x, sigma); };

void silu(const float* x, float* y, int64_t n) {
  map64(x, y, n, [](auto& v) { gate64(kSiluArgument, v); });
}
void gelu(const float* x, float* y, int64_t n) {
  map64(x, y, n, [](auto& v) { gate64(kGeluArgument, v); });
}
void silu_grad(const float* dy, const float* x, float* dx, int64_t n) {
  grad64(dy, x, dx, n, [](auto& v) { slope64(kSiluArgument, kSiluSlope, v); });
}
void gelu_grad(const float* dy, const float* x, float* dx, int64_t n) {
  grad64(dy, x, dx, n, [](auto& v) { slope64(kGeluArgument, kGeluSlope, v); });
}

}  // namespace

const ElementwiseKernels elementwise_kernels = {add, mul, scale, scale_twice, silu, silu_grad, gelu, gelu_grad};

}  // namespace fp4sim::simd::FP4SIM_ISA
