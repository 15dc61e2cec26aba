// What the op layer shares: plain pointers of a node's f32 operands and the grain of threads.
#pragma once

#include <algorithm>

#include "reference/contract/host_backend.h"
#include "reference/simd/ops.h"

namespace fp4sim::simd::ops {

/// Elements that are worth waking a thread for.
inline constexpr int64_t kGrain = 1 << 14;

inline const float* f32_in(const NodeCall& call, size_t i) { return in_data<float>(call.in[i]); }
inline float* f32_out(const NodeCall& call, size_t i = 0) { return out_data<float>(call.out[i]); }
inline int64_t count_in(const NodeCall& call, size_t i) { return element_count(call.in[i].type.shape); }

/// Rows of `cols` elements that make up one grain.
inline int64_t row_grain(int64_t cols) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cols)); }

/// A tensor as (rows, cols) over its last axis.
struct Rows {
  int64_t rows, cols;
};
inline Rows rows_in(const NodeCall& call, size_t i) {
  const MatrixView view = matrix_view(call.in[i].type.shape);
  return {view.matrices * view.rows, view.cols};
}

/// Throws Error naming the op for an index outside [0, limit): checked before any thread starts.
void check_indices(const char* op, const char* what, const int32_t* ids, int64_t n, int64_t limit);

}  // namespace fp4sim::simd::ops
