// Fused quantization to formats of 16 bits without a scale, and fused decoding.
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

// ---- decoding ----

constexpr int kDecodeItems = 4;  // fours of neighbours of one thread

/// Four neighbouring codes of kBits, the first in the lowest bits.
template <int kBits>
struct FourCodes;
template <>
struct FourCodes<4> {
  uint32_t string;
  __device__ FourCodes(const uint8_t* codes, int64_t four) : string(reinterpret_cast<const uint16_t*>(codes)[four]) {}
};
template <>
struct FourCodes<6> {
  uint32_t string;
  __device__ FourCodes(const uint8_t* codes, int64_t four) {
    const uint8_t* from = codes + four * 3;
    string = uint32_t{from[0]} | uint32_t{from[1]} << 8 | uint32_t{from[2]} << 16;
  }
};
template <>
struct FourCodes<8> {
  uint32_t string;
  __device__ FourCodes(const uint8_t* codes, int64_t four) : string(reinterpret_cast<const uint32_t*>(codes)[four]) {}
};
template <>
struct FourCodes<16> {
  uint64_t string;
  __device__ FourCodes(const uint8_t* codes, int64_t four) : string(reinterpret_cast<const uint64_t*>(codes)[four]) {}
};

/// Code number k of four as the top bits of a word, with other codes below.
template <int kBits>
__device__ uint32_t at_top(const FourCodes<kBits>& codes, int k) {
  if constexpr (kBits == 16) return static_cast<uint32_t>(codes.string >> (16 * k)) << 16;
  return static_cast<uint32_t>(codes.string) << (32 - kBits * (k + 1));
}

/// The value of the code in the top bits of a word.
template <int kBits>
__device__ float value_of(uint32_t word, const ShortDecoder& d, bool plain) {
  if (!plain) return decode_short(word >> (32 - kBits), d);
  constexpr uint32_t kMagnitude = ((1u << (kBits - 1)) - 1u) << (32 - kBits);
  return float_of((word & kF32SignBit) | (word & kMagnitude) >> (32 - kBits - d.drop)) * d.factor;
}

/// How an element finds its scale.
enum class ScaleWay {
  none,    // there is none
  one,     // of the tensor
  blocks,  // of blocks along rows, one after the other: the number of the four divided by a power of two
  rows,    // of rows
  any      // by the layout
};

struct DecodePlan {
  ShortDecoder decoder;
  bool plain;  // every code is a sign and a finite magnitude
  ScaleWay way;
  int shift;                     // blocks
  int64_t step_rows, step_rest;  // rows, any: what kThreads fours further is in rows and fours
};

/// The value of kDecodeItems times four neighbours of a row, fl(fl(code·scale)·d) (§4.1–4.3).
template <int kBits>
__global__ void __launch_bounds__(kThreads) decode_fours(PackedView q, DecodePlan plan, float4* x) {
  const Layout& l = q.layout;
  const int64_t per_row = l.cols / 4, fours = l.rows * per_row;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kDecodeItems) + threadIdx.x;
  FourCodes<kBits> codes[kDecodeItems] = {{q.codes, first < fours ? first : 0},
                                          {q.codes, first + kThreads < fours ? first + kThreads : 0},
                                          {q.codes, first + 2 * kThreads < fours ? first + 2 * kThreads : 0},
                                          {q.codes, first + 3 * kThreads < fours ? first + 3 * kThreads : 0}};
  static_assert(kDecodeItems == 4);
  const float of_tensor = q.tensor_scale != nullptr ? *q.tensor_scale : 1.0f;
  const float of_all = plan.way == ScaleWay::one ? q.scale_at(0) : 1.0f;
  int64_t row = 0, in_row = 0;
  if (plan.way == ScaleWay::rows || plan.way == ScaleWay::any)
    row = quotient(first, per_row), in_row = first - row * per_row;
#pragma unroll
  for (int i = 0; i < kDecodeItems; ++i) {
    const int64_t four = first + i * kThreads;
    if (four >= fours) return;
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = value_of<kBits>(at_top(codes[i], k), plan.decoder, plan.plain);
    if (plan.way == ScaleWay::any) {
      const int64_t block = l.block_of(row, in_row * 4);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const bool next = l.col_step == 1, same = l.col_step % 4 == 0;  // blocks of neighbours
        v[k] = v[k] * q.scale_at(next ? block + k : same ? block : l.block_of(row, in_row * 4 + k));
      }
    } else if (plan.way != ScaleWay::none) {
      const float scale =
          plan.way == ScaleWay::one ? of_all : q.scale_at(plan.way == ScaleWay::rows ? row : four >> plan.shift);
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = v[k] * scale;
    }
    if (q.tensor_scale != nullptr)
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = v[k] * of_tensor;
    x[four] = make_float4(v[0], v[1], v[2], v[3]);
    row += plan.step_rows, in_row += plan.step_rest;
    if (in_row >= per_row) in_row -= per_row, ++row;
  }
}

/// Host only.
DecodePlan decode_plan(const PackedView& q) {
  const ElementFormat& f = q.quantizer.element;
  const Layout& l = q.layout;
  DecodePlan plan{short_decoder_of(f),
                  f.specials == Specials::none && f.encoding == Encoding::sign_magnitude,
                  ScaleWay::any,
                  0,
                  0,
                  0};
  plan.step_rows = kThreads / (l.cols / 4);
  plan.step_rest = kThreads - plan.step_rows * (l.cols / 4);
  const bool power = l.col_step >= 4 && (l.col_step & (l.col_step - 1)) == 0;
  if (q.scales == nullptr) {
    plan.way = ScaleWay::none;
  } else if (l.blocks == 1) {
    plan.way = ScaleWay::one;
  } else if (l.row_step == 1 && l.grid_cols == 1) {
    plan.way = ScaleWay::rows;
  } else if (l.row_step == 1 && power && l.cols % l.col_step == 0) {
    plan.way = ScaleWay::blocks;
    for (int64_t fours = l.col_step / 4; fours > 1; fours /= 2) ++plan.shift;
  }
  return plan;
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
  const bool width = f.bits == 4 || f.bits == 6 || f.bits == 8 || f.bits == 16;
  return width && short_decoder_takes(f) && matrix_view(packed.shape).cols % kGroup == 0;
}

void fused_dequantize(const PackedView& q, float* x, Context& context) {
  if (q.layout.elements() == 0) return;
  const int bits = q.quantizer.element.bits;
  const auto kernel = bits == 4   ? decode_fours<4>
                      : bits == 6 ? decode_fours<6>
                      : bits == 8 ? decode_fours<8>
                                  : decode_fours<16>;
  const int64_t fours = q.layout.elements() / 4;
  context.launch(kernel, Context::per_block(ceil_div(fours, kThreads * kDecodeItems), kThreads), q, decode_plan(q),
                 reinterpret_cast<float4*>(x));
}

}  // namespace fp4sim::gpu
