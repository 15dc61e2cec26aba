// Passes over finished products, operand bytes and sparse rows.
#include "reference/simd/fma.h"
#include "reference/simd/kernels_product.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

void add(const float* panel, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] += panel[j];
}

void scale_f32(const float* dot, float sa, const float* sb, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = dot[j] * (sa * sb[j]);
}

void scale_f64(const double* dot, float sa, const float* sb, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = static_cast<float>(dot[j]) * (sa * sb[j]);
}

void scale_i32(const int32_t* dot, float unit, float sa, const float* sb, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = (static_cast<float>(dot[j]) * unit) * (sa * sb[j]);
}

void multiply(float d, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] *= d;
}

void decode_nibbles(const uint8_t* codes, const int8_t* table, int8_t* to, int64_t n) {
  int64_t j = 0;
#if !defined(FP4SIM_ISA_sse2)
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  const __m256i low_bits = _mm256_set1_epi8(15);
  for (; j + 32 <= n; j += 32) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + j / 2));
    // each byte to 16 bits; the low nibble stays below, the high one moves to the upper byte
    const __m256i wide = _mm256_cvtepu8_epi16(bytes);
    const __m256i nibbles = _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi16(wide, 4)), low_bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + j), _mm256_shuffle_epi8(values, nibbles));
  }
#endif
  for (; j < n; ++j) to[j] = table[(codes[j / 2] >> (4 * (j & 1))) & 15];
}

/// kVectors vectors of y at once: each entry of the row is broadcast to all of them.
template <int kVectors>
inline void sparse_columns(const float* values, const int32_t* col, int64_t entries, const float* other, int64_t stride,
                           float* y) {
  F32 acc[kVectors];
  for (int c = 0; c < kVectors; ++c) acc[c] = F32(0.0f);
  for (int64_t e = 0; e < entries; ++e) {
    const F32 v(values[e]);
    const float* line = other + col[e] * stride;
    for (int c = 0; c < kVectors; ++c) acc[c] = fma(v, F32::load_unaligned(line + c * kF32Width), acc[c]);
  }
  for (int c = 0; c < kVectors; ++c) acc[c].store_unaligned(y + c * kF32Width);
}

void sparse_row(const float* values, const int32_t* col, int64_t entries, const float* other, int64_t stride, float* y,
                int64_t n) {
  int64_t j = 0;
  for (; j + 8 * kF32Width <= n; j += 8 * kF32Width) sparse_columns<8>(values, col, entries, other + j, stride, y + j);
  for (; j + kF32Width <= n; j += kF32Width) sparse_columns<1>(values, col, entries, other + j, stride, y + j);
  for (; j < n; ++j) {
    float acc = 0.0f;
    for (int64_t e = 0; e < entries; ++e) acc = fma1(values[e], other[col[e] * stride + j], acc);
    y[j] = acc;
  }
}

}  // namespace

constinit const ProductFinish product_finish{&add,      &scale_f32,      &scale_f64, &scale_i32,
                                             &multiply, &decode_nibbles, &sparse_row};

}  // namespace fp4sim::simd::FP4SIM_ISA
