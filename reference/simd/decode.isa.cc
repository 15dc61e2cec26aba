// dequantize on a run of elements: unpacking, the codes' values, then the scales.
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/scaled_values.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

void unpack4(const uint8_t* packed, int64_t n, uint8_t* codes) {
  for (int64_t i = 0; i < (n + 1) / 2; ++i) {
    const uint16_t pair = static_cast<uint16_t>((packed[i] & 0x0F) | ((packed[i] & 0xF0) << 4));
    __builtin_memcpy(codes + 2 * i, &pair, 2);
  }
}

void unpack6(const uint8_t* packed, int64_t n, uint8_t* codes) {
  const int64_t bytes = (n * 6 + 7) / 8;
  for (int64_t i = 0, b = 0; i < n; i += 4, b += 3) {
    uint32_t four = 0;
    for (int64_t k = 0; k < 3 && b + k < bytes; ++k) four |= static_cast<uint32_t>(packed[b + k]) << (8 * k);
    for (int k = 0; k < 4; ++k) codes[i + k] = static_cast<uint8_t>((four >> (6 * k)) & 0x3F);
  }
}

/// Values of n codes. A normal code is the top of a binary32 number with another bias; a subnormal one counts steps.
template <class Code>
void decode_values(const Codec& codec, const Code* codes, int64_t n, float* out) {
  const int32_t sign_bit = 1 << (codec.bits - 1), dropped = 23 - codec.mantissa_bits;
  const int32_t bias = (127 - codec.bias) << 23, first_normal = 1 << codec.mantissa_bits, max_code = codec.max_code;
  const int32_t to_sign = 32 - codec.bits;
  const float step = codec.min_step;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t code = codes[i];
    const int32_t magnitude_code = code & (sign_bit - 1);
    const int32_t shifted = magnitude_code << dropped;
    const auto subnormal = __builtin_bit_cast(int32_t, static_cast<float>(magnitude_code) * step);
    int32_t bits = magnitude_code < first_normal ? subnormal : shifted + bias;
    bits = magnitude_code > max_code ? shifted | static_cast<int32_t>(kF32Inf) : bits;  // Inf and NaN keep their bits
    out[i] =
        __builtin_bit_cast(float, static_cast<uint32_t>(bits) | (static_cast<uint32_t>(code & sign_bit) << to_sign));
  }
}

void decode_segment(const Codec& codec, const uint8_t* packed, int64_t n, float* out) {
  alignas(64) uint8_t codes[kSegment + 4];
  if (codec.bits == 16) {
    alignas(64) uint16_t words[kSegment];
    __builtin_memcpy(words, packed, static_cast<size_t>(2 * n));
    return decode_values(codec, words, n, out);
  }
  if (codec.bits == 8) return decode_values(codec, packed, n, out);
  if (codec.bits == 4)
    unpack4(packed, n, codes);
  else
    unpack6(packed, n, codes);
  decode_values(codec, codes, n, out);
}

void decode(const Codec& codec, const uint8_t* codes, int64_t n, BlockFactors f, const float* d, float* out) {
  const bool scaled = f.factors != nullptr;
  alignas(64) float values[kSegment];
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    decode_segment(codec, codes + at * codec.bits / 8, count, scaled ? values : out + at);
    if (scaled) scale_segment<Scaling::multiply>(values, count, at, f, codec.max_normal, out + at);
    if (d != nullptr)
      for (int64_t i = at; i < at + count; ++i) out[i] = out[i] * *d;
  }
}

}  // namespace

extern const DecodeKernels decode_kernels;
const DecodeKernels decode_kernels = {decode};

}  // namespace fp4sim::simd::FP4SIM_ISA
