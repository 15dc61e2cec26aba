// Array forms of elementary.h.
#include "reference/simd/elementary.h"

#include "reference/simd/kernels_elementary.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

template <class Function>
void map_f64(const double* x, double* y, int64_t n, Function function) {
  for (int64_t i = 0; i < n; i += kF64Width) function(F64::load_unaligned(x + i)).store_unaligned(y + i);
}

void exp_array(const double* x, double* y, int64_t n) {
  map_f64(x, y, n, [](F64 v) { return exp64(v); });
}
void log_array(const double* x, double* y, int64_t n) {
  map_f64(x, y, n, [](F64 v) { return log64(v); });
}
void exp_f32_array(const float* x, float* y, int64_t n) {
  for_groups(
      n,
      [=](int64_t i) {
        F32 v[kGroup];
        for (int k = 0; k < kGroup; ++k) v[k] = Full{}.load(x + i + k * kF32Width);
        exp_f32(v);
        for (int k = 0; k < kGroup; ++k) Full{}.store(y + i + k * kF32Width, v[k]);
      },
      [=](int64_t i, auto part) { part.store(y + i, exp_f32(part.load(x + i))); });
}
void log_f32_array(const float* x, float* y, int64_t n) {
  for_vectors(n, [=](int64_t i, auto part) { part.store(y + i, log_f32(part.load(x + i))); });
}

}  // namespace

const ElementaryKernels elementary_kernels = {exp_array, log_array, exp_f32_array, log_f32_array};

}  // namespace fp4sim::simd::FP4SIM_ISA
