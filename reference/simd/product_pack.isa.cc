// Packing of binary32 operands into tiles: copies, and transposition of square blocks in registers.
#include "reference/simd/product_pack.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

constexpr int kW = kF32Width;

/// Transposes kW × kW elements: rows at `from` (stride apart) become r[0], r[1], … by column.
#if defined(FP4SIM_ISA_avx512)
inline void load_transposed(const float* from, int64_t stride, F32 (&r)[kW]) {
  __m512 t[16], u[16];
  for (int i = 0; i < 16; i += 4) {
    const __m512 x0 = _mm512_loadu_ps(from + i * stride), x1 = _mm512_loadu_ps(from + (i + 1) * stride);
    const __m512 x2 = _mm512_loadu_ps(from + (i + 2) * stride), x3 = _mm512_loadu_ps(from + (i + 3) * stride);
    const __m512d a0 = _mm512_castps_pd(_mm512_unpacklo_ps(x0, x1)), a1 = _mm512_castps_pd(_mm512_unpackhi_ps(x0, x1));
    const __m512d a2 = _mm512_castps_pd(_mm512_unpacklo_ps(x2, x3)), a3 = _mm512_castps_pd(_mm512_unpackhi_ps(x2, x3));
    // t[i + c]: columns c, c+4, c+8, c+12 (one a 128-bit lane) of rows i … i+3
    t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a0, a2)), t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a0, a2));
    t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(a1, a3)), t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(a1, a3));
  }
  for (int c = 0; c < 4; ++c) {
    u[c] = _mm512_shuffle_f32x4(t[c], t[4 + c], 0x44), u[4 + c] = _mm512_shuffle_f32x4(t[c], t[4 + c], 0xEE);
    u[8 + c] = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0x44);
    u[12 + c] = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0xEE);
  }
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_shuffle_f32x4(u[c], u[8 + c], 0x88), r[4 + c] = _mm512_shuffle_f32x4(u[c], u[8 + c], 0xDD);
    r[8 + c] = _mm512_shuffle_f32x4(u[4 + c], u[12 + c], 0x88);
    r[12 + c] = _mm512_shuffle_f32x4(u[4 + c], u[12 + c], 0xDD);
  }
}
#elif defined(FP4SIM_ISA_avx2)
inline void load_transposed(const float* from, int64_t stride, F32 (&r)[kW]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 4) {
    const __m256 x0 = _mm256_loadu_ps(from + i * stride), x1 = _mm256_loadu_ps(from + (i + 1) * stride);
    const __m256 x2 = _mm256_loadu_ps(from + (i + 2) * stride), x3 = _mm256_loadu_ps(from + (i + 3) * stride);
    const __m256d a0 = _mm256_castps_pd(_mm256_unpacklo_ps(x0, x1)), a1 = _mm256_castps_pd(_mm256_unpackhi_ps(x0, x1));
    const __m256d a2 = _mm256_castps_pd(_mm256_unpacklo_ps(x2, x3)), a3 = _mm256_castps_pd(_mm256_unpackhi_ps(x2, x3));
    t[i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a0, a2)), t[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a0, a2));
    t[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(a1, a3)), t[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(a1, a3));
  }
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x20);
    r[4 + c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x31);
  }
}
#else
inline void load_transposed(const float* from, int64_t stride, F32 (&r)[kW]) {
  __m128 x0 = _mm_loadu_ps(from), x1 = _mm_loadu_ps(from + stride);
  __m128 x2 = _mm_loadu_ps(from + 2 * stride), x3 = _mm_loadu_ps(from + 3 * stride);
  _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
  r[0] = x0, r[1] = x1, r[2] = x2, r[3] = x3;
}
#endif

inline void store_row(F32 x, float* to) { x.store_unaligned(to); }
inline void store_row(F32 x, double* to) {
#if defined(FP4SIM_ISA_avx512)
  _mm512_storeu_pd(to, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
  _mm512_storeu_pd(to + 8, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
#elif defined(FP4SIM_ISA_avx2)
  _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
  _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
#else
  _mm_storeu_pd(to, _mm_cvtps_pd(x));
  _mm_storeu_pd(to + 2, _mm_cvtps_pd(_mm_movehl_ps(x, x)));
#endif
}

/// n < kW elements.
inline void store_part(const float* x, int64_t n, float* to) {
#if defined(FP4SIM_ISA_avx512)
  const auto mask = static_cast<__mmask16>((1u << n) - 1u);
  _mm512_mask_storeu_ps(to, mask, _mm512_maskz_loadu_ps(mask, x));
#else
  for (int64_t j = 0; j < n; ++j) to[j] = x[j];
#endif
}
inline void store_part(const float* x, int64_t n, double* to) {
  for (int64_t j = 0; j < n; ++j) to[j] = static_cast<double>(x[j]);
}

template <class T>
void columns(const float* x, int64_t stride, int64_t vectors, int64_t depth, T* y, int64_t width) {
  for (int64_t k = 0; k < depth; ++k, x += stride, y += width) {
    int64_t v = 0;
    for (; v + kW <= vectors; v += kW) store_row(F32::load_unaligned(x + v), y + v);
    store_part(x + v, vectors - v, y + v);
    for (v = vectors; v < width; ++v) y[v] = T(0);
  }
}

/// Whole kW × kW blocks in registers; the edges one element at a time.
template <class T>
void transposed(const float* x, int64_t stride, int64_t vectors, int64_t depth, T* y, int64_t width) {
  for (int64_t v = 0; v < width; v += kW) {
    int64_t k = 0;
    if (v + kW <= vectors && v + kW <= width) {
      for (; k + kW <= depth; k += kW) {
        F32 r[kW];
        load_transposed(x + v * stride + k, stride, r);
        for (int c = 0; c < kW; ++c) store_row(r[c], y + (k + c) * width + v);
      }
    }
    for (int64_t w = v; w < v + kW && w < width; ++w)
      for (int64_t j = k; j < depth; ++j) y[j * width + w] = w < vectors ? static_cast<T>(x[w * stride + j]) : T(0);
  }
}

}  // namespace

void pack_columns_f32(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  columns(static_cast<const float*>(from), stride, vectors, depth, static_cast<float*>(to), width);
}
void pack_transposed_f32(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  transposed(static_cast<const float*>(from), stride, vectors, depth, static_cast<float*>(to), width);
}
void pack_columns_f64(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  columns(static_cast<const float*>(from), stride, vectors, depth, static_cast<double*>(to), width);
}
void pack_transposed_f64(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  transposed(static_cast<const float*>(from), stride, vectors, depth, static_cast<double*>(to), width);
}

}  // namespace fp4sim::simd::FP4SIM_ISA
