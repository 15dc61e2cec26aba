// silu and gelu with their derivatives: binary64 in the order op.def states, one rounding to binary32.
#include "reference/contract/coefficients.h"
#include "reference/contract/host_backend.h"
#include "reference/scalar/elementary.h"
#include "reference/scalar/kernels.h"

namespace fp4sim::scalar::kernels {
namespace {

double silu_value(double x) { return x / (1.0 + exp64(-x)); }

double silu_slope(double x) {
  const double sigma = 1.0 / (1.0 + exp64(-x));
  return sigma * (1.0 + x * (1.0 - sigma));
}

/// u of gelu(x) ≈ x·σ(2u).
double gelu_argument(double x) { return kSqrt2OverPi * (x + kGeluCubic * ((x * x) * x)); }

double gelu_value(double x) { return x / (1.0 + exp64(-2.0 * gelu_argument(x))); }

double gelu_slope(double x) {
  const double sigma = 1.0 / (1.0 + exp64(-2.0 * gelu_argument(x)));
  const double du = kSqrt2OverPi * (1.0 + (3.0 * kGeluCubic) * (x * x));
  return sigma + ((2.0 * x) * (sigma * (1.0 - sigma))) * du;
}

using Function = double (*)(double);

void apply(const NodeCall& call, Function f) {
  const float* x = in_data<float>(call.in[0]);
  float* y = out_data<float>(call.out[0]);
  const int64_t n = element_count(call.in[0].type.shape);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(f(static_cast<double>(x[i])));
}

/// dx = fl(dy·fl(slope(x))).
void apply_gradient(const NodeCall& call, Function slope) {
  const float *dy = in_data<float>(call.in[0]), *x = in_data<float>(call.in[1]);
  float* dx = out_data<float>(call.out[0]);
  const int64_t n = element_count(call.in[0].type.shape);
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * static_cast<float>(slope(static_cast<double>(x[i])));
}

}  // namespace

void silu(const NodeCall& call) { apply(call, silu_value); }
void silu_grad(const NodeCall& call) { apply_gradient(call, silu_slope); }
void gelu(const NodeCall& call) { apply(call, gelu_value); }
void gelu_grad(const NodeCall& call) { apply_gradient(call, gelu_slope); }

}  // namespace fp4sim::scalar::kernels
