// Column sums: a few vectors of columns stay in registers while the rows pass by in ascending order.
#include "reference/simd/fma.h"
#include "reference/simd/kernels_columns.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

inline constexpr int kBlock = 4;  // vectors of columns held at once

/// step(row, column, Full or Part, acc) returns the chain after this row.
template <class Step>
inline void walk(float* acc, int64_t rows, int64_t cols, const Step& step) {
  int64_t c = 0;
  for (; c + kBlock * kF32Width <= cols; c += kBlock * kF32Width) {
    F32 chains[kBlock];
    for (int v = 0; v < kBlock; ++v) chains[v] = F32::load_unaligned(acc + c + v * kF32Width);
    for (int64_t t = 0; t < rows; ++t)
      for (int v = 0; v < kBlock; ++v) chains[v] = step(t, c + v * kF32Width, Full{}, chains[v]);
    for (int v = 0; v < kBlock; ++v) chains[v].store_unaligned(acc + c + v * kF32Width);
  }
  for_vectors(cols - c, [&](int64_t i, auto part) {
    F32 chain = part.load(acc + c + i);
    for (int64_t t = 0; t < rows; ++t) chain = step(t, c + i, part, chain);
    part.store(acc + c + i, chain);
  });
}

void sum(float* acc, const float* x, int64_t rows, int64_t stride, int64_t cols) {
  walk(acc, rows, cols,
       [=](int64_t t, int64_t c, auto part, F32 chain) { return chain + part.load(x + t * stride + c); });
}

void gather_sum(float* acc, const float* x, const int32_t* positions, int64_t count, int64_t stride, int64_t cols) {
  walk(acc, count, cols,
       [=](int64_t t, int64_t c, auto part, F32 chain) { return chain + part.load(x + positions[t] * stride + c); });
}

void rms_products(float* acc, const float* dy, const float* x, const float* r, int64_t rows, int64_t stride,
                  int64_t cols) {
  walk(acc, rows, cols, [=](int64_t t, int64_t c, auto part, F32 chain) {
    const int64_t i = t * stride + c;
    return fma(part.load(dy + i), part.load(x + i) * F32(r[t]), chain);
  });
}

void layer_products(float* acc, const float* dy, const float* x, const float* mean, const float* r, int64_t rows,
                    int64_t stride, int64_t cols) {
  walk(acc, rows, cols, [=](int64_t t, int64_t c, auto part, F32 chain) {
    const int64_t i = t * stride + c;
    return fma(part.load(dy + i), (part.load(x + i) - F32(mean[t])) * F32(r[t]), chain);
  });
}

}  // namespace

const ColumnKernels column_kernels = {sum, gather_sum, rms_products, layer_products};

}  // namespace fp4sim::simd::FP4SIM_ISA
