// Register tiles of the int8 engines (for ISA units): exact integer dots, four consecutive k in a unit of 4 bytes.
// A is stored plus an offset as unsigned bytes, B signed; the offset leaves again through the first value of a dot,
// −offset·Σb. Written in plain intrinsics, since the VNNI unit must not instantiate xsimd's avx512bw functions.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "reference/simd/kernels_product.h"

namespace fp4sim::simd::FP4SIM_ISA {

#if defined(FP4SIM_ISA_avx2)

using Int = __m256i;
using Float = __m256;
inline constexpr int kIntWidth = 8;
inline Int load_int(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_int(void* p, Int x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
inline Int broadcast_int(int32_t x) { return _mm256_set1_epi32(x); }
inline Int zero_int() { return _mm256_setzero_si256(); }
inline Int ones16() { return _mm256_set1_epi16(1); }
inline Int ones8() { return _mm256_set1_epi8(1); }
inline Int pairs16(Int a, Int b) { return _mm256_maddubs_epi16(a, b); }
inline Int add16(Int x, Int y) { return _mm256_add_epi16(x, y); }
inline Int pairs32(Int x) { return _mm256_madd_epi16(x, ones16()); }
inline Int add32(Int x, Int y) { return _mm256_add_epi32(x, y); }
inline Int multiply32(Int x, Int y) { return _mm256_mullo_epi32(x, y); }
inline Float to_float(Int x) { return _mm256_cvtepi32_ps(x); }
inline Float load_float(const float* p) { return _mm256_loadu_ps(p); }
inline void store_float(float* p, Float x) { _mm256_storeu_ps(p, x); }
inline Float broadcast_float(float x) { return _mm256_set1_ps(x); }
inline Float multiply(Float x, Float y) { return _mm256_mul_ps(x, y); }
inline Float fused(Float x, Float y, Float z) { return _mm256_fmadd_ps(x, y, z); }

#else

using Int = __m512i;
using Float = __m512;
inline constexpr int kIntWidth = 16;
inline Int load_int(const void* p) { return _mm512_loadu_si512(p); }
inline void store_int(void* p, Int x) { _mm512_storeu_si512(p, x); }
inline Int broadcast_int(int32_t x) { return _mm512_set1_epi32(x); }
inline Int zero_int() { return _mm512_setzero_si512(); }
inline Int ones16() { return _mm512_set1_epi16(1); }
inline Int ones8() { return _mm512_set1_epi8(1); }
inline Int pairs16(Int a, Int b) { return _mm512_maddubs_epi16(a, b); }
inline Int add16(Int x, Int y) { return _mm512_add_epi16(x, y); }
inline Int pairs32(Int x) { return _mm512_madd_epi16(x, ones16()); }
inline Int add32(Int x, Int y) { return _mm512_add_epi32(x, y); }
inline Int multiply32(Int x, Int y) { return _mm512_mullo_epi32(x, y); }
inline Float to_float(Int x) { return _mm512_cvtepi32_ps(x); }
inline Float load_float(const float* p) { return _mm512_loadu_ps(p); }
inline void store_float(float* p, Float x) { _mm512_storeu_ps(p, x); }
inline Float broadcast_float(float x) { return _mm512_set1_ps(x); }
inline Float multiply(Float x, Float y) { return _mm512_mul_ps(x, y); }
inline Float fused(Float x, Float y, Float z) { return _mm512_fmadd_ps(x, y, z); }

#endif

inline constexpr int kIntNr = 2 * kIntWidth;
inline constexpr int64_t kIntDepth = 256;  // units: 1024 consecutive k, one panel of §7
inline constexpr int64_t kIntRowStride = kIntDepth + 16;

/// Ends the accumulators' life in the loop before: g++ 12 otherwise stores those that it later needs in memory at every
/// step of that loop.
template <int R>
inline __attribute__((always_inline)) void keep_in_registers(Int (&acc)[R][2]) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) asm("" : "+v"(acc[i][0]), "+v"(acc[i][1]));
}

/// The tile's output, or a local copy that is written back: where the tile has fewer columns than a full one, or where
/// rows lie a multiple of 4 KiB apart and would push each other out of L1.
template <class T, int R>
class IntTileOutput {
 public:
  explicit IntTileOutput(const Tile& t)
      : home_(static_cast<T*>(t.out)),
        home_stride_(t.out_stride),
        cols_(t.cols),
        base_(t.cols == kIntNr && t.out_stride % kAliasing != 0 ? home_ : local_),
        stride_(base_ == home_ ? home_stride_ : kIntNr) {
    if (base_ == home_ || t.first) return;
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < cols_; ++j) local_[i * kIntNr + j] = home_[i * home_stride_ + j];
  }
  T* row(int i) const { return base_ + i * stride_; }
  int64_t stride() const { return stride_; }
  void finish() const {
    if (base_ == home_) return;
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < cols_; ++j) home_[i * home_stride_ + j] = local_[i * kIntNr + j];
  }

 private:
  T* home_;
  int64_t home_stride_;
  int cols_;
  T* base_;
  int64_t stride_;
  alignas(64) T local_[R * kIntNr];
};

struct IntTiles {
  template <int kForm>
  static const int32_t* a_at(const int32_t* a, int i, int64_t k, int64_t stride) {
    return kForm == kRowsForm ? a + i * kIntRowStride + k : a + k * stride + i;
  }

#if defined(FP4SIM_ISA_avx512vnni)
  /// acc[i] += a(i, k)·b(k, ·) for k in [0, depth) units.
  template <int R, int kForm>
  static inline __attribute__((always_inline)) void accumulate(Int (&acc)[R][2], const int32_t* a, const int32_t* b,
                                                               int64_t depth, int64_t a_stride, int64_t) {
    for (int64_t k = 0; k < depth; ++k) {
      const Int b0 = load_int(b), b1 = load_int(b + kIntWidth);
      b += kIntNr;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const Int av = broadcast_int(*a_at<kForm>(a, i, 0, a_stride));
        acc[i][0] = _mm512_dpbusd_epi32(acc[i][0], av, b0);
        acc[i][1] = _mm512_dpbusd_epi32(acc[i][1], av, b1);
      }
      a += kForm == kRowsForm ? 1 : a_stride;
    }
  }
#else
  /// The same through sums of pairs, which stay in int16 for `narrow` units.
  template <int R, int kForm>
  static inline __attribute__((always_inline)) void accumulate(Int (&acc)[R][2], const int32_t* a, const int32_t* b,
                                                               int64_t depth, int64_t a_stride, int64_t narrow) {
    for (int64_t k = 0; k < depth; k += narrow) {
      const int64_t end = depth - k < narrow ? depth - k : narrow;
      Int sums[R][2];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) sums[i][0] = sums[i][1] = zero_int();
      for (int64_t n = 0; n < end; ++n) {
        const Int b0 = load_int(b), b1 = load_int(b + kIntWidth);
        b += kIntNr;
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
          const Int av = broadcast_int(*a_at<kForm>(a, i, 0, a_stride));
          sums[i][0] = add16(sums[i][0], pairs16(av, b0));
          sums[i][1] = add16(sums[i][1], pairs16(av, b1));
        }
        a += kForm == kRowsForm ? 1 : a_stride;
      }
      keep_in_registers(sums);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        acc[i][0] = add32(acc[i][0], pairs32(sums[i][0]));
        acc[i][1] = add32(acc[i][1], pairs32(sums[i][1]));
      }
    }
  }
#endif

  template <int R, int kForm>
  static void chain(const Tile& t) {
    const IntTileOutput<int32_t, R> out(t);
    Int acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        acc[i][c] = load_int(t.start + c * kIntWidth);
        if (!t.first) acc[i][c] = add32(acc[i][c], load_int(out.row(i) + c * kIntWidth));
      }
    accumulate<R, kForm>(acc, static_cast<const int32_t*>(t.a), static_cast<const int32_t*>(t.b), t.depth, t.a_stride,
                         t.narrow);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      store_int(out.row(i), acc[i][0]);
      store_int(out.row(i) + kIntWidth, acc[i][1]);
    }
    out.finish();
  }

  /// The integer dot is below 2^24, so its binary32 is exact; its unit is part of a_scale.
  template <int R, int kForm>
  static void block_product(const Tile& t) {
    const IntTileOutput<float, R> out(t);
    float* const y = out.row(0);
    const int64_t stride = out.stride();
    if (t.first) {
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        store_float(y + i * stride, broadcast_float(0.0f));
        store_float(y + i * stride + kIntWidth, broadcast_float(0.0f));
      }
    }
    const int32_t* a = static_cast<const int32_t*>(t.a);
    const int32_t* b = static_cast<const int32_t*>(t.b);
    const int32_t* start = t.start;
    const float *sa = t.a_scale, *sb = t.b_scale;
    for (int64_t k = 0; k < t.depth; k += t.block) {
      Int acc[R][2];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) acc[i][0] = load_int(start), acc[i][1] = load_int(start + kIntWidth);
      accumulate<R, kForm>(acc, a_at<kForm>(a, 0, k, t.a_stride), b + k * kIntNr,
                           t.depth - k < t.block ? t.depth - k : t.block, t.a_stride, t.narrow);
      keep_in_registers(acc);
      const Float sb0 = load_float(sb), sb1 = load_float(sb + kIntWidth);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const Float s = broadcast_float(sa[i]);
        float* const y0 = y + i * stride;
        float* const y1 = y0 + kIntWidth;
        store_float(y0, fused(to_float(acc[i][0]), multiply(s, sb0), load_float(y0)));
        store_float(y1, fused(to_float(acc[i][1]), multiply(s, sb1), load_float(y1)));
      }
      start += kIntNr, sa += t.a_scale_stride, sb += t.b_scale_stride;
    }
    out.finish();
  }
};

/// k outer: four lines of bytes become lines of units.
inline void pack_columns_i8(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  const int8_t* x = static_cast<const int8_t*>(from);
  int8_t* y = static_cast<int8_t*>(to);
  for (int64_t u = 0; u < depth; ++u, x += 4 * stride, y += 4 * width) {
    int64_t v = 0;
    for (; v + 16 <= vectors && v + 16 <= width; v += 16) {
      const auto line = [&](int k) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + k * stride + v)); };
      const __m128i x0 = line(0), x1 = line(1), x2 = line(2), x3 = line(3);
      const __m128i lo01 = _mm_unpacklo_epi8(x0, x1), hi01 = _mm_unpackhi_epi8(x0, x1);
      const __m128i lo23 = _mm_unpacklo_epi8(x2, x3), hi23 = _mm_unpackhi_epi8(x2, x3);
      __m128i* units = reinterpret_cast<__m128i*>(y + 4 * v);
      _mm_storeu_si128(units, _mm_unpacklo_epi16(lo01, lo23));
      _mm_storeu_si128(units + 1, _mm_unpackhi_epi16(lo01, lo23));
      _mm_storeu_si128(units + 2, _mm_unpacklo_epi16(hi01, hi23));
      _mm_storeu_si128(units + 3, _mm_unpackhi_epi16(hi01, hi23));
    }
    for (; v < width; ++v)
      for (int k = 0; k < 4; ++k) y[4 * v + k] = v < vectors ? x[k * stride + v] : int8_t{0};
  }
}

/// k inner: a line of units is a line of bytes.
inline void pack_rows_i8(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to) {
  const int8_t* x = static_cast<const int8_t*>(from);
  int8_t* y = static_cast<int8_t*>(to);
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t k = 0; k < 4 * depth; ++k) y[v * 4 * kIntRowStride + k] = x[v * stride + k];
}

inline void start_values(const void* from, int64_t depth, int64_t block, int32_t offset, int32_t* start) {
  const int32_t* b = static_cast<const int32_t*>(from);
  for (int64_t k = 0; k < depth; k += block, start += kIntNr) {
    Int s0 = zero_int(), s1 = zero_int();
    for (int64_t u = k; u < k + block && u < depth; ++u) {
      s0 = add32(s0, pairs32(pairs16(ones8(), load_int(b + u * kIntNr))));
      s1 = add32(s1, pairs32(pairs16(ones8(), load_int(b + u * kIntNr + kIntWidth))));
    }
    store_int(start, multiply32(s0, broadcast_int(-offset)));
    store_int(start + kIntWidth, multiply32(s1, broadcast_int(-offset)));
  }
}

template <int... I>
constexpr void fill_int_kernels(Engine& e, std::integer_sequence<int, I...>) {
  ((e.chain[kColumnsForm][I] = &IntTiles::chain<I + 1, kColumnsForm>,
    e.chain[kRowsForm][I] = &IntTiles::chain<I + 1, kRowsForm>,
    e.block_product[kColumnsForm][I] = &IntTiles::block_product<I + 1, kColumnsForm>,
    e.block_product[kRowsForm][I] = &IntTiles::block_product<I + 1, kRowsForm>),
   ...);
}

template <int kRows>
constexpr Engine int_engine(decltype(Engine::pack_transposed) transposed) {
  Engine e{};
  e.mr = kRows, e.nr = kIntNr, e.unit_bytes = 4, e.unit_elements = 4, e.depth = kIntDepth, e.row_stride = kIntRowStride;
  e.pack_columns = &pack_columns_i8, e.pack_transposed = transposed, e.pack_rows = &pack_rows_i8;
  e.start_values = &start_values;
  fill_int_kernels(e, std::make_integer_sequence<int, kRows>{});
  return e;
}

}  // namespace fp4sim::simd::FP4SIM_ISA
