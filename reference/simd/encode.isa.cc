// quantize on a run of elements: y, codes and packing, a segment at a time in the first-level cache.
#include "reference/simd/e2m1_encode.h"
#include "reference/simd/encode.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/philox.h"
#include "reference/simd/scaled_values.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

/// Two codes a byte, the even element in the low nibble; codes[n] is 0.
void pack4(const uint8_t* codes, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < (n + 1) / 2; ++i) {
    uint16_t pair;
    __builtin_memcpy(&pair, codes + 2 * i, 2);
    out[i] = static_cast<uint8_t>(pair | (pair >> 4));
  }
}

/// Four codes in three bytes, a little-endian bit string; codes beyond n are 0.
void pack6(const uint8_t* codes, int64_t n, uint8_t* out) {
  const int64_t bytes = (n * 6 + 7) / 8;
  for (int64_t i = 0, b = 0; b < bytes; i += 4, b += 3) {
    const uint32_t four = codes[i] | (static_cast<uint32_t>(codes[i + 1]) << 6) |
                          (static_cast<uint32_t>(codes[i + 2]) << 12) | (static_cast<uint32_t>(codes[i + 3]) << 18);
    for (int64_t k = 0; k < 3 && b + k < bytes; ++k) out[b + k] = static_cast<uint8_t>(four >> (8 * k));
  }
}

void pack(int32_t bits, const void* codes, int64_t n, uint8_t* out) {
  if (bits == 4) return pack4(static_cast<const uint8_t*>(codes), n, out);
  if (bits == 6) return pack6(static_cast<const uint8_t*>(codes), n, out);
  __builtin_memcpy(out, codes, static_cast<size_t>(n * bits / 8));
}

using EncodeSegment = void (*)(const Codec&, const float*, const uint32_t*, int64_t, void*);

template <Rounding R, int M>
void encode_segment(const Codec& codec, const float* y, const uint32_t* random, int64_t n, void* codes) {
  if constexpr (M < 7)
    encode_array<R, M>(codec, y, random, n, static_cast<uint8_t*>(codes));
  else
    encode_array<R, M>(codec, y, random, n, static_cast<uint16_t*>(codes));
}

template <int M>
EncodeSegment segment_encoder(Rounding rounding) {
  switch (rounding) {
    case Rounding::rne: return encode_segment<Rounding::rne, M>;
    case Rounding::rna: return encode_segment<Rounding::rna, M>;
    case Rounding::rnz: return encode_segment<Rounding::rnz, M>;
    case Rounding::rnu: return encode_segment<Rounding::rnu, M>;
    case Rounding::rtz: return encode_segment<Rounding::rtz, M>;
    case Rounding::rtp: return encode_segment<Rounding::rtp, M>;
    case Rounding::rtn: return encode_segment<Rounding::rtn, M>;
    case Rounding::sr32: return encode_segment<Rounding::sr32, M>;
    default: __builtin_unreachable();
  }
}

EncodeSegment segment_encoder(const Codec& codec) {
  switch (codec.mantissa_bits) {
    case 1: return segment_encoder<1>(codec.rounding);
    case 2: return segment_encoder<2>(codec.rounding);
    case 3: return segment_encoder<3>(codec.rounding);
    case 7: return segment_encoder<7>(codec.rounding);
    case 10: return segment_encoder<10>(codec.rounding);
    default: __builtin_unreachable();
  }
}

void encode(const EncodeJob& job, const float* x, int64_t n, BlockFactors f, int64_t first, uint8_t* codes) {
  alignas(64) float y[kSegment];
  alignas(64) uint32_t words[kSegment + kPhiloxSlack];
  alignas(64) uint16_t segment_codes[kSegment];  // holds bytes for formats of 8 bits and less
  const EncodeSegment encode_codes = segment_encoder(job.codec);
  const bool stochastic = job.codec.rounding == Rounding::sr32;
  for (int64_t at = encode_e2m1(job, x, n, f, codes); at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    scale_segment(job.scaling, x + at, count, at, f, job.codec.max_normal, y);
    int64_t padded = count;
    for (; padded % kStoreLanes != 0; ++padded) y[padded] = 0.0f;  // code 0: also the padding of packed rows
    const uint32_t* random = stochastic ? philox_run(job.random, first + at, padded, words) : words;
    encode_codes(job.codec, y, random, padded, segment_codes);
    pack(job.codec.bits, segment_codes, count, codes + at * job.codec.bits / 8);
  }
}

void copy_canonical(const float* x, int64_t n, float* y) {
  for_vectors(n, [=](int64_t i, auto part) {
    const F32 v = part.load(x + i);
    part.store(y + i, xsimd::select(v == v, v, as_f32(I32(static_cast<int32_t>(kF32CanonicalNaN)))));
  });
}

const uint32_t* philox(const RandomBits& random, int64_t first, int64_t n, uint32_t* words) {
  return philox_run(random, first, n, words);
}

}  // namespace

extern const EncodeKernels encode_kernels;
const EncodeKernels encode_kernels = {encode, copy_canonical, philox};

}  // namespace fp4sim::simd::FP4SIM_ISA
