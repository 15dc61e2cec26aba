// dequantize on a run of elements: unpacking, the codes' values, then the scales.
#include "reference/simd/code_bits.h"
#include "reference/simd/encode.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/scaled_values.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

/// Codes of n elements as bytes, in order; writes up to 31 bytes more.
void unpack4(const uint8_t* packed, int64_t n, uint8_t* codes) {
  const __m128i nibble = _mm_set1_epi8(0x0F);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + i / 2));
    const __m128i low = _mm_and_si128(bytes, nibble), high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm_unpacklo_epi8(low, high));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i + 16), _mm_unpackhi_epi8(low, high));
  }
  for (; i < n; i += 2) {
    codes[i] = packed[i / 2] & 0x0F;
    codes[i + 1] = static_cast<uint8_t>(packed[i / 2] >> 4);
  }
}

/// Three bytes as four codes in a little-endian word.
inline uint32_t spread6(uint32_t three) {
  return (three & 0x3F) | ((three << 2) & 0x3F00) | ((three << 4) & 0x3F0000) | ((three << 6) & 0x3F000000);
}

/// Codes of n elements as bytes; writes up to 3 bytes more.
void unpack6(const uint8_t* packed, int64_t n, uint8_t* codes) {
  const int64_t bytes = (n * 6 + 7) / 8;
  for (int64_t i = 0, b = 0; i < n; i += 4, b += 3) {
    uint32_t three = 0;
    if (b + 4 <= bytes)
      __builtin_memcpy(&three, packed + b, 4);
    else
      for (int64_t k = 0; b + k < bytes; ++k) three |= static_cast<uint32_t>(packed[b + k]) << (8 * k);
    const uint32_t four = spread6(three);
    __builtin_memcpy(codes + i, &four, 4);
  }
}

/// A vector of codes in 32-bit lanes.
#if defined(FP4SIM_ISA_avx512)
inline I32 load_codes(const uint8_t* p) {
  return I32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline I32 load_codes(const uint16_t* p) {
  return I32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
#elif defined(FP4SIM_ISA_avx2)
inline I32 load_codes(const uint8_t* p) {
  return I32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline I32 load_codes(const uint16_t* p) {
  return I32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#else
inline I32 load_codes(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  const __m128i zero = _mm_setzero_si128();
  return I32(_mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(four), zero), zero));
}
inline I32 load_codes(const uint16_t* p) {
  return I32(_mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128()));
}
#endif

/// Values of codes. A normal code is the top of a binary32 number with another bias; a subnormal one counts steps.
struct DecodeLanes {
  explicit DecodeLanes(const Codec& c)
      : dropped(23 - c.mantissa_bits),
        to_sign(32 - c.bits),
        sign_bit(static_cast<int32_t>(1u << (c.bits - 1))),
        bias((127 - c.bias) << 23),
        first_normal(1 << c.mantissa_bits),
        max_code(c.max_code),
        step(c.min_step) {}
  F32 operator()(I32 code) const {
    const I32 magnitude_code = code & (sign_bit - I32(1));
    const I32 shifted = magnitude_code << dropped;
    const I32 subnormal = as_i32(xsimd::to_float(magnitude_code) * step);
    const I32 finite = xsimd::select(magnitude_code < first_normal, subnormal, shifted + bias);
    const I32 special = shifted | I32(static_cast<int32_t>(kF32Inf));  // Inf and NaN keep their bits
    const I32 bits = xsimd::select(magnitude_code > max_code, special, finite);
    return as_f32(bits | ((code & sign_bit) << to_sign));
  }
  int32_t dropped, to_sign;
  I32 sign_bit, bias, first_normal, max_code;
  F32 step;
};

/// out has room for whole vectors.
template <class Code>
void decode_values(const Codec& codec, const Code* codes, int64_t n, float* out) {
  const DecodeLanes values(codec);
  for (int64_t i = 0; i < n; i += kF32Width) values(load_codes(codes + i)).store_unaligned(out + i);
}

/// Values of n ≤ kSegment codes; `out` holds kSegment.
void decode_segment(const Codec& codec, const uint8_t* packed, int64_t n, float* out) {
  if (codec.bits == 16) {
    alignas(64) uint16_t words[kSegment];
    __builtin_memcpy(words, packed, static_cast<size_t>(2 * n));
    // bf16 is the upper half of binary32, subnormals, Inf and NaN included.
    if (codec.mantissa_bits == 7)
      for (int64_t i = 0; i < n; i += kF32Width) as_f32(load_codes(words + i) << 16).store_unaligned(out + i);
    else
      decode_values(codec, words, n, out);
    return;
  }
  alignas(64) uint8_t codes[kSegment + 64];
  if (codec.bits == 4)
    unpack4(packed, n, codes);
  else if (codec.bits == 6)
    unpack6(packed, n, codes);
  else if (codec.bits == 8)
    __builtin_memcpy(codes, packed, static_cast<size_t>(n));
  else
    unpack_bits(codec.bits, packed, n, codes);
  if (codec.values == nullptr) return decode_values(codec, codes, n, out);
  for (int64_t i = 0; i < n; ++i) out[i] = codec.values[codes[i]];
}

void decode(const Codec& codec, const uint8_t* codes, int64_t n, BlockFactors f, const float* d, float* out) {
  alignas(64) float values[kSegment];
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    decode_segment(codec, codes + at * codec.bits / 8, count, values);
    if (f.factors != nullptr) scale_segment<Scaling::multiply>(values, count, at, f, codec.max_normal, values);
    const F32 tensor_scale(d != nullptr ? *d : 1.0f);
    for_vectors(count, [&](int64_t i, auto part) {
      const F32 v = part.load(values + i);
      part.store(out + at + i, d != nullptr ? v * tensor_scale : v);
    });
  }
}

}  // namespace

extern const DecodeKernels decode_kernels;
const DecodeKernels decode_kernels = {decode};

}  // namespace fp4sim::simd::FP4SIM_ISA
