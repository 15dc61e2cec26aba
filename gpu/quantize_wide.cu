// Fused quantization to formats of 16 bits without a scale, and fused decoding: eight neighbours a thread.
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kItems = 2;  // groups of eight elements of one thread

/// Number of this thread's first group; the next is a block of threads further.
__device__ int64_t first_group() { return int64_t{blockIdx.x} * (kThreads * kItems) + threadIdx.x; }

__global__ void __launch_bounds__(kThreads)
    encode_wide(const float* x, int64_t groups, ShortCodec codec, PackedCopies copies) {
  Eight e[kItems] = {};
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (first_group() + i * kThreads < groups) e[i] = load_eight(x + (first_group() + i * kThreads) * kGroup);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t group = first_group() + i * kThreads;
    if (group >= groups) return;
    uint32_t pairs[kGroup / 2];
#pragma unroll
    for (int k = 0; k < kGroup / 2; ++k)
      pairs[k] = encode_short_rne(e[i].v[2 * k], codec) | encode_short_rne(e[i].v[2 * k + 1], codec) << 16;
    for (uint8_t* to : copies.codes)
      if (to != nullptr) reinterpret_cast<uint4*>(to)[group] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

/// The words of a group of eight codes of kBits.
template <int kBits>
struct CodeWords;
template <>
struct CodeWords<4> {
  uint32_t words;
  __device__ CodeWords(const uint8_t* codes, int64_t group) : words(reinterpret_cast<const uint32_t*>(codes)[group]) {}
  __device__ uint32_t get(int k) const { return words >> (4 * k) & 0xFu; }
};
template <>
struct CodeWords<6> {
  uint64_t string = 0;
  __device__ CodeWords(const uint8_t* codes, int64_t group) {
    const auto* from = reinterpret_cast<const uint16_t*>(codes + group * 6);
    for (int k = 0; k < 3; ++k) string |= uint64_t{from[k]} << (16 * k);
  }
  __device__ uint32_t get(int k) const { return static_cast<uint32_t>(string >> (6 * k)) & 0x3Fu; }
};
template <>
struct CodeWords<8> {
  uint2 words;
  __device__ CodeWords(const uint8_t* codes, int64_t group) : words(reinterpret_cast<const uint2*>(codes)[group]) {}
  __device__ uint32_t get(int k) const { return (k < 4 ? words.x : words.y) >> (8 * (k % 4)) & 0xFFu; }
};
template <>
struct CodeWords<16> {
  uint4 words;
  __device__ CodeWords(const uint8_t* codes, int64_t group) : words(reinterpret_cast<const uint4*>(codes)[group]) {}
  __device__ uint32_t get(int k) const {
    const uint32_t word = k < 4 ? (k < 2 ? words.x : words.y) : (k < 6 ? words.z : words.w);
    return word >> (16 * (k % 2)) & 0xFFFFu;
  }
};

/// The value of eight neighbours of a row, fl(fl(code·scale)·d) (§4.1–4.3).
template <int kBits>
__global__ void __launch_bounds__(kThreads) decode_groups(PackedView q, ShortDecoder decoder, float4* x) {
  const Layout& l = q.layout;
  const int64_t group = thread_number();
  if (group >= l.rows * l.groups) return;
  const CodeWords<kBits> codes(q.codes, group);
  float v[kGroup];
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = decode_short(codes.get(k), decoder);
  if (q.scales != nullptr) {
    const int64_t row = quotient(group, l.groups), block = l.block_of(row, (group - row * l.groups) * kGroup);
    if (l.col_step == 1) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = v[k] * q.scale_at(block + k);
    } else {
      const float scale = q.scale_at(block);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = v[k] * scale;
    }
  }
  if (q.tensor_scale != nullptr)
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = v[k] * *q.tensor_scale;
  x[2 * group] = make_float4(v[0], v[1], v[2], v[3]);
  x[2 * group + 1] = make_float4(v[4], v[5], v[6], v[7]);
}

}  // namespace

bool fused_wide_take(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  return is_unscaled(s) && s.element.bits == 16 && s.rounding == Rounding::rne && !s.sr34 &&
         short_codec_takes({s.element, s.rounding, uses_ieee(s)}) && matrix_view(packed.shape).cols % kGroup == 0;
}

void fused_wide(const QuantizeCall& call, const PackedCopies& copies, Context& context) {
  const int64_t groups = call.q.layout.elements() / kGroup;
  context.launch(encode_wide, Context::per_block(ceil_div(groups, kThreads * kItems), kThreads), call.x, groups,
                 short_codec_of(call.q.quantizer.codec()), copies);
}

bool fused_dequantize_takes(const ValueType& packed) {
  const ElementFormat& f = packed.spec.element;
  const Layout l = layout_of(packed);
  const bool shared = l.col_step % kGroup == 0 || l.col_step >= l.cols;
  const bool width = f.bits == 4 || f.bits == 6 || f.bits == 8 || f.bits == 16;
  return width && short_decoder_takes(f) && l.cols % kGroup == 0 &&
         (is_unscaled(packed.spec) || l.col_step == 1 || shared);
}

void fused_dequantize(const PackedView& q, float* x, Context& context) {
  const int bits = q.quantizer.element.bits;
  const auto kernel = bits == 4   ? decode_groups<4>
                      : bits == 6 ? decode_groups<6>
                      : bits == 8 ? decode_groups<8>
                                  : decode_groups<16>;
  const int64_t groups = q.layout.rows * q.layout.groups;
  context.launch(kernel, Context::per_block(ceil_div(groups, kThreads), kThreads), q,
                 short_decoder_of(q.quantizer.element), reinterpret_cast<float4*>(x));
}

}  // namespace fp4sim::gpu
