// Register tiles of the float engines (for ISA units): R rows × two vectors of columns, one chain per output.
// The order inside a tile is the order of §7: k ascending, one accumulator an output; only the arithmetic differs.
#pragma once

#include <utility>

#include "reference/simd/fma.h"
#include "reference/simd/kernels_product.h"

namespace fp4sim::simd::FP4SIM_ISA {

/// The fp32 rule of §7: acc = fma(a, b, acc).
struct F32Chain {
  using T = float;
  using V = F32;
  static V mul_add(V a, V b, V c) { return fma(a, b, c); }
};

/// Sums that are exact in binary32: fused or not is the same, and SSE2 has a fast unfused form.
struct F32Exact {
  using T = float;
  using V = F32;
#if defined(FP4SIM_ISA_sse2)
  static V mul_add(V a, V b, V c) { return a * b + c; }
#else
  static V mul_add(V a, V b, V c) { return fma(a, b, c); }
#endif
};

/// Sums that are exact in binary64.
struct F64Exact {
  using T = double;
  using V = F64;
#if defined(FP4SIM_ISA_avx512)
  static V mul_add(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(FP4SIM_ISA_avx2)
  static V mul_add(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
#else
  static V mul_add(V a, V b, V c) { return a * b + c; }
#endif
};

/// Dots of a row as binary32 vectors, rounded once.
template <class V>
inline constexpr int kDotVectors = 2;
template <>
inline constexpr int kDotVectors<F64> = 1;

inline F32 dot_vector(const F32 (&dot)[2], int c) { return dot[c]; }
inline F32 dot_vector(const F64 (&dot)[2], int) {
#if defined(FP4SIM_ISA_avx512)
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(dot[0])), _mm512_cvtpd_ps(dot[1]), 1);
#elif defined(FP4SIM_ISA_avx2)
  return _mm256_set_m128(_mm256_cvtpd_ps(dot[1]), _mm256_cvtpd_ps(dot[0]));
#else
  return _mm_movelh_ps(_mm_cvtpd_ps(dot[0]), _mm_cvtpd_ps(dot[1]));
#endif
}

/// Ends the accumulators' life in the loop before: g++ 12 otherwise stores those that it later needs in memory at every
/// step of that loop.
template <class V, int R>
inline __attribute__((always_inline)) void keep_in_registers(V (&acc)[R][2]) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    typename V::register_type x = acc[i][0], y = acc[i][1];
    asm("" : "+v"(x), "+v"(y));
    acc[i][0] = x, acc[i][1] = y;
  }
}

/// The tile's output, or a local copy that is written back: where the tile has fewer columns than a full one, or where
/// rows lie a multiple of 4 KiB apart and would push each other out of L1.
template <class T, int R, int kWidth>
class TileOutput {
 public:
  explicit TileOutput(const Tile& t)
      : home_(static_cast<T*>(t.out)),
        home_stride_(t.out_stride),
        cols_(t.cols),
        base_(t.cols == kWidth && t.out_stride % kAliasing != 0 ? home_ : local_),
        stride_(base_ == home_ ? home_stride_ : kWidth) {
    if (base_ == home_ || t.first) return;
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < cols_; ++j) local_[i * kWidth + j] = home_[i * home_stride_ + j];
  }
  T* row(int i) const { return base_ + i * stride_; }
  void finish() const {
    if (base_ == home_) return;
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < cols_; ++j) home_[i * home_stride_ + j] = local_[i * kWidth + j];
  }

 private:
  T* home_;
  int64_t home_stride_;
  int cols_;
  T* base_;
  int64_t stride_;
  alignas(64) T local_[R * kWidth];
};

/// Kernels of one float arithmetic: tiles two vectors wide; kRowStride in elements.
template <class Arithmetic, int64_t kRowStride>
struct FloatTiles {
  using T = typename Arithmetic::T;
  using V = typename Arithmetic::V;
  static constexpr int kW = static_cast<int>(V::size);
  static constexpr int kNr = 2 * kW;

  template <int kForm>
  static const T* a_at(const T* a, int i, int64_t k, int64_t stride) {
    return kForm == kRowsForm ? a + i * kRowStride + k : a + k * stride + i;
  }

  /// acc[i] += a(i, k)·b(k, ·) for k in [0, depth).
  template <int R, int kForm>
  static inline __attribute__((always_inline)) void accumulate(V (&acc)[R][2], const T* a, const T* b, int64_t depth,
                                                               int64_t a_stride) {
    for (int64_t k = 0; k < depth; ++k) {
      const V b0 = V::load_unaligned(b), b1 = V::load_unaligned(b + kW);
      b += kNr;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const V av(*a_at<kForm>(a, i, 0, a_stride));
        acc[i][0] = Arithmetic::mul_add(av, b0, acc[i][0]);
        acc[i][1] = Arithmetic::mul_add(av, b1, acc[i][1]);
      }
      a += kForm == kRowsForm ? 1 : a_stride;
    }
  }

  template <int R, int kForm>
  static void chain(const Tile& t) {
    TileOutput<T, R, kNr> out(t);
    V acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      acc[i][0] = t.first ? V(T(0)) : V::load_unaligned(out.row(i));
      acc[i][1] = t.first ? V(T(0)) : V::load_unaligned(out.row(i) + kW);
    }
    accumulate<R, kForm>(acc, static_cast<const T*>(t.a), static_cast<const T*>(t.b), t.depth, t.a_stride);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      acc[i][0].store_unaligned(out.row(i));
      acc[i][1].store_unaligned(out.row(i) + kW);
    }
    out.finish();
  }

  template <int R, int kForm>
  static void block_product(const Tile& t) {
    constexpr int kVectors = kDotVectors<V>;
    const TileOutput<float, R, kVectors * kF32Width> out(t);
    if (t.first) {
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) F32(0.0f).store_unaligned(out.row(i) + c * kF32Width);
    }
    const T* a = static_cast<const T*>(t.a);
    const T* b = static_cast<const T*>(t.b);
    const float *sa = t.a_scale, *sb = t.b_scale;
    for (int64_t k = 0; k < t.depth; k += t.block) {
      V dot[R][2];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) dot[i][0] = dot[i][1] = V(T(0));
      accumulate<R, kForm>(dot, a_at<kForm>(a, 0, k, t.a_stride), b + k * kNr,
                           t.depth - k < t.block ? t.depth - k : t.block, t.a_stride);
      keep_in_registers(dot);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) {
          float* const y = out.row(i) + c * kF32Width;
          const F32 scale = F32(sa[i]) * F32::load_unaligned(sb + c * kF32Width);
          fma(dot_vector(dot[i], c), scale, F32::load_unaligned(y)).store_unaligned(y);
        }
      sa += t.a_scale_stride, sb += t.b_scale_stride;
    }
    out.finish();
  }
};

template <class Tiles, int... I>
constexpr void fill_kernels(Engine& e, std::integer_sequence<int, I...>) {
  ((e.chain[kColumnsForm][I] = &Tiles::template chain<I + 1, kColumnsForm>,
    e.chain[kRowsForm][I] = &Tiles::template chain<I + 1, kRowsForm>,
    e.block_product[kColumnsForm][I] = &Tiles::template block_product<I + 1, kColumnsForm>,
    e.block_product[kRowsForm][I] = &Tiles::template block_product<I + 1, kRowsForm>),
   ...);
}

}  // namespace fp4sim::simd::FP4SIM_ISA
