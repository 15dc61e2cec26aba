// Dot products over k (numerics.md §7): fma chains in panels, and exact integer sums rounded once.
#pragma once

#include <cstdint>

namespace fp4sim::scalar {

/// integer·2^exponent rounded once to binary32, nearest even, by integer arithmetic: subnormals kept, overflow gives
/// ±Inf, a zero integer gives +0.
float round_to_f32(int64_t integer, int exponent);

/// One fma chain from +0: acc = fma(a[k], b[k], acc), k ascending over n elements, without panels.
float fma_chain(const float* a, const float* b, int64_t n);

/// The fp32 rule: fma chains of panels of 1024 k, added in ascending order; +0 for n = 0.
float fp32_dot(const float* a, const float* b, int64_t n);

/// An element as an integer multiple of 2^min_step_exponent, or kNotFinite for a NaN or Inf code.
inline constexpr int64_t kNotFinite = INT64_MIN;

/// The exact Σ a[k]·b[k]·2^exponent rounded once to binary32; NaN if an element is kNotFinite; an exact zero is +0.
/// The caller keeps to the budget of §7, under which the sum stays below 2^53.
float exact_dot(const int64_t* a, const int64_t* b, int64_t n, int exponent);

}  // namespace fp4sim::scalar
