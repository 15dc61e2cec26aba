// Rows of rmsnorm and layernorm (numerics.md §9), and the statistics of one.
#pragma once

#include "gpu/row_passes.cuh"

namespace fp4sim::gpu {

struct NormRows {
  int64_t rows, n;
  float count, eps;  // n and eps rounded to binary32
};

/// The rows of a node's input. Host only.
inline NormRows norm_rows(const NodeCall& call, size_t input) {
  const MatrixView m = matrix_view(call.in[input].type.shape);
  return {m.matrices * m.rows, m.cols, static_cast<float>(m.cols), static_cast<float>(call.node.attrs.number("eps"))};
}

__device__ inline float reciprocal_root(float mean_square, float eps) { return 1.0f / sqrt32(mean_square + eps); }

/// Mean and r of a row: xh = (x − mean)·r.
struct Centered {
  float mean, r;
  __device__ float operator()(float x) const { return (x - mean) * r; }
};
template <class Row, class X>
__device__ Centered center_row(const Row& row, const X& x, const NormRows& s) {
  const float mean = row.sum([&](float acc, auto i) { return acc + x[i]; }) / s.count;
  const float squares = row.sum([&](float acc, auto i) {
    const float d = x[i] - mean;
    return fma32(d, d, acc);
  });
  return {mean, reciprocal_root(squares / s.count, s.eps)};
}

}  // namespace fp4sim::gpu
