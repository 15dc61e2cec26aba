// For ISA units: loops over ranges with a partial last vector, and the row reductions of numerics.md §7 (32 lanes kept
// in registers, halving tree, chunks of 4096).
#pragma once

#include <immintrin.h>

#include <limits>

#include "reference/contract/reduction_order.h"
#include "reference/simd/isa.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// A whole vector of elements.
struct Full {
  F32 load(const float* p) const { return F32::load_unaligned(p); }
  void store(float* p, F32 v) const { v.store_unaligned(p); }
  F32 keep(F32 fresh, F32) const { return fresh; }
};

/// The first elements of a vector, 0 < count < kF32Width; memory beyond them is neither read nor written.
class Part {
 public:
#if defined(FP4SIM_ISA_avx512)
  explicit Part(int64_t count) : mask_(static_cast<__mmask16>((1u << count) - 1u)) {}
  F32 load(const float* p) const { return F32(_mm512_maskz_loadu_ps(mask_, p)); }
  void store(float* p, F32 v) const { _mm512_mask_storeu_ps(p, mask_, v); }
  /// `fresh` in the counted lanes, `old` in the others.
  F32 keep(F32 fresh, F32 old) const { return F32(_mm512_mask_blend_ps(mask_, old, fresh)); }

 private:
  __mmask16 mask_;
#elif defined(FP4SIM_ISA_avx2)
  explicit Part(int64_t count)
      : mask_(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                                 _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
  F32 load(const float* p) const { return F32(_mm256_maskload_ps(p, mask_)); }
  void store(float* p, F32 v) const { _mm256_maskstore_ps(p, mask_, v); }
  F32 keep(F32 fresh, F32 old) const { return F32(_mm256_blendv_ps(old, fresh, _mm256_castsi256_ps(mask_))); }

 private:
  __m256i mask_;
#else
  explicit Part(int64_t count) : count_(static_cast<int>(count)) {}
  F32 load(const float* p) const {
    alignas(16) float t[4] = {};
    for (int l = 0; l < count_; ++l) t[l] = p[l];
    return F32::load_aligned(t);
  }
  void store(float* p, F32 v) const {
    alignas(16) float t[4];
    v.store_aligned(t);
    for (int l = 0; l < count_; ++l) p[l] = t[l];
  }
  F32 keep(F32 fresh, F32 old) const {
    const __m128i counted = _mm_cmplt_epi32(_mm_setr_epi32(0, 1, 2, 3), _mm_set1_epi32(count_));
    const __m128 mask = _mm_castsi128_ps(counted);
    return F32(_mm_or_ps(_mm_and_ps(mask, fresh), _mm_andnot_ps(mask, old)));
  }

 private:
  int count_;
#endif
};

/// Calls body(i, Full or Part) for i = 0, W, 2W … so that every element of [0, n) is counted once.
template <class Body>
inline void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kF32Width <= n; i += kF32Width) body(i, Full{});
  if (i < n) body(i, Part(n - i));
}

/// Vectors that code with long chains of operations treats alternately: enough to hide their latency.
#if defined(FP4SIM_ISA_avx512)
inline constexpr int kGroup = 4;
#else
inline constexpr int kGroup = 2;
#endif

/// Loops as for_vectors, kGroup vectors at a time: group(i) covers elements i … i + kGroup·W − 1, single(i, Full or
/// Part) the rest.
template <class Group, class Single>
inline void for_groups(int64_t n, Group group, Single single) {
  int64_t i = 0;
  for (; i + kGroup * kF32Width <= n; i += kGroup * kF32Width) group(i);
  for_vectors(n - i, [=](int64_t j, auto part) { single(i + j, part); });
}

inline constexpr int kLaneVectors = kLanes / kF32Width;

/// Sum of one vector's lanes in the halving order (…, 4, 2, 1; lane i + lane i+h).
inline float tree_sum(__m128 v) {
  const __m128 two = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
#if defined(FP4SIM_ISA_avx512) || defined(FP4SIM_ISA_avx2)
inline float tree_sum(__m256 v) { return tree_sum(_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1))); }
#endif
#if defined(FP4SIM_ISA_avx512)
inline float tree_sum(__m512 v) {
  return tree_sum(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
#endif

/// Sum of 32 lanes held in kLaneVectors vectors, in the halving order 16, 8, 4, 2, 1.
inline float tree_sum(F32 (&lanes)[kLaneVectors]) {
  for (int h = kLaneVectors / 2; h > 0; h /= 2)
    for (int v = 0; v < h; ++v) lanes[v] = lanes[v] + lanes[v + h];
  return tree_sum(static_cast<F32::register_type>(lanes[0]));
}

/// Reduction of at most one chunk: step(i, Full or Part, accumulator) returns the accumulator after elements i, i+1 …
/// of the vector. Lanes without a further element keep their accumulator.
template <class Step>
inline float chunk_reduce(int64_t begin, int64_t n, const Step& step) {
  F32 lanes[kLaneVectors];
  for (F32& lane : lanes) lane = F32(0.0f);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int v = 0; v < kLaneVectors; ++v) lanes[v] = step(begin + i + v * kF32Width, Full{}, lanes[v]);
  for (int v = 0; v < kLaneVectors && i < n; ++v, i += kF32Width) {
    if (n - i >= kF32Width) {
      lanes[v] = step(begin + i, Full{}, lanes[v]);
    } else {
      const Part part(n - i);
      lanes[v] = part.keep(step(begin + i, part, lanes[v]), lanes[v]);
    }
  }
  return tree_sum(lanes);
}

/// Reduction of a row of any length; steps come in ascending order of elements. prepare(first, count) is called before
/// the steps of every chunk.
template <class Step, class Prepare>
inline float row_reduce(int64_t begin, int64_t n, const Step& step, const Prepare& prepare) {
  if (n <= kRowChunk) {
    prepare(begin, n);
    return chunk_reduce(begin, n, step);
  }
  int64_t span = kRowChunk;
  while (span * kRowChunk < n) span *= kRowChunk;
  float parts[kRowChunk];
  int64_t count = 0;
  for (int64_t done = 0; done < n; done += span)
    parts[count++] = row_reduce(begin + done, n - done < span ? n - done : span, step, prepare);
  return chunk_reduce(0, count, [&](int64_t i, auto part, F32 sum) { return sum + part.load(parts + i); });
}

template <class Step>
inline float row_reduce(int64_t begin, int64_t n, const Step& step) {
  return row_reduce(begin, n, step, [](int64_t, int64_t) {});
}

/// Largest of load(i, Full or Part) over [0, n). A NaN may be lost and the sign of a zero is free: callers pass on a
/// NaN through the sum that follows.
template <class Load>
inline float row_max(int64_t n, const Load& load) {
  const F32 least(-std::numeric_limits<float>::infinity());
  F32 best[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 4 * kF32Width <= n; i += 4 * kF32Width)
    for (int v = 0; v < 4; ++v) best[v] = xsimd::max(best[v], load(i + v * kF32Width, Full{}));
  for (; i + kF32Width <= n; i += kF32Width) best[0] = xsimd::max(best[0], load(i, Full{}));
  if (i < n) {
    const Part part(n - i);
    best[1] = xsimd::max(best[1], part.keep(load(i, part), least));
  }
  const F32 all = xsimd::max(xsimd::max(best[0], best[1]), xsimd::max(best[2], best[3]));
  float lanes[kF32Width];
  all.store_unaligned(lanes);
  float result = lanes[0];
  for (int l = 1; l < kF32Width; ++l) result = lanes[l] > result ? lanes[l] : result;
  return result;
}

}  // namespace fp4sim::simd::FP4SIM_ISA
