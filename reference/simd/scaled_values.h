// y, the number given to encode (numerics.md §4.1–4.3), for ISA units: shared by quantize and estimator_grad.
#pragma once

#include <immintrin.h>

#include "reference/simd/encode.h"
#include "reference/simd/isa.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// Elements worked on at a time: y, random words and codes of a segment stay in the first-level cache.
/// A multiple of every store width and of every whole number of packed bytes.
inline constexpr int64_t kSegment = 1024;

inline F32 clamp_to(F32 y, F32 limit) {
  y = xsimd::select(y > limit, limit, y);
  return xsimd::select(y < -limit, -limit, y);
}

template <Scaling S>
inline F32 scaled(F32 x, F32 f, F32 max_normal) {
  if constexpr (S == Scaling::none) return x;
  if constexpr (S == Scaling::multiply) return x * f;
  if constexpr (S == Scaling::divide) return x / f;
  if constexpr (S == Scaling::divide_clamped) return clamp_to(x / f, max_normal);
  if constexpr (S == Scaling::multiply_away) {
    // A product that underflowed to zero keeps counting as a nonzero number of x's sign.
    const F32 y = x * f;
    const F32 tiny = as_f32((as_i32(x) & I32(static_cast<int32_t>(kF32SignBit))) | I32(1));
    return xsimd::select((y == F32(0.0f)) & (x != F32(0.0f)), tiny, y);
  }
}

/// y of elements at, at + 1, … of a run, n of them.
template <Scaling S>
inline void scale_segment(const float* x, int64_t n, int64_t at, BlockFactors f, float max_normal, float* y) {
  const F32 limit(max_normal);
  if (f.block == 0) {
    for_vectors(n, [&](int64_t i, auto part) {
      part.store(y + i, scaled<S>(part.load(x + i), part.load(f.factors + at + i), limit));
    });
    return;
  }
  const float* factor = f.factors;
  int64_t left = f.block;  // of the block that the segment begins in
  if constexpr (S != Scaling::none) {
    factor += at / f.block;
    left -= at % f.block;
  }
  for (int64_t i = 0; i < n; left = f.block, ++factor) {
    const int64_t end = left < n - i ? i + left : n;
    F32 block_factor(0.0f);
    if constexpr (S != Scaling::none) block_factor = F32(*factor);
    for_vectors(end - i, [&](int64_t j, auto part) {
      part.store(y + i + j, scaled<S>(part.load(x + i + j), block_factor, limit));
    });
    i = end;
  }
}

inline void scale_segment(Scaling scaling, const float* x, int64_t n, int64_t at, BlockFactors f, float max_normal,
                          float* y) {
  switch (scaling) {
    case Scaling::none: return scale_segment<Scaling::none>(x, n, 0, {nullptr, kOneBlock}, max_normal, y);
    case Scaling::multiply: return scale_segment<Scaling::multiply>(x, n, at, f, max_normal, y);
    case Scaling::multiply_away: return scale_segment<Scaling::multiply_away>(x, n, at, f, max_normal, y);
    case Scaling::divide: return scale_segment<Scaling::divide>(x, n, at, f, max_normal, y);
    case Scaling::divide_clamped: return scale_segment<Scaling::divide_clamped>(x, n, at, f, max_normal, y);
    case Scaling::multiply_real:
    case Scaling::quotient: __builtin_unreachable();  // binary64: wide_values.h
  }
}

}  // namespace fp4sim::simd::FP4SIM_ISA
