#include "cli/io/ggml_blocks.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

/// The E2M1 values doubled, by code; their scales are halved.
constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

uint8_t nearest_code(float x, float half_scale) {
  uint8_t best = 0;
  float least = std::fabs(kDoubled[0] * half_scale - x);
  for (uint8_t code = 1; code < 16; ++code) {
    const float distance = std::fabs(kDoubled[code] * half_scale - x);
    if (distance < least) {
      least = distance;
      best = code;
    }
  }
  return best;
}

/// max |x|, NaN passed over.
float amax_of(const float* x, int count) {
  float amax = 0;
  for (int i = 0; i < count; ++i)
    if (amax < std::fabs(x[i])) amax = std::fabs(x[i]);
  return amax;
}

/// How many floats just below 2^k have a binary32 logarithm to base 2 of exactly k. |log2 x| lies 1.4427 n·2^-24 from
/// |k| for the n-th of them, and rounds to it within half an ulp of the binade that holds the logarithm.
int floats_rounded_up(int k) {
  if (k == 0) return 0;
  // below a positive power of two the logarithm lies in the binade below |k|, else in that of |k|
  int binade = 0;
  for (int magnitude = k > 0 ? k - 1 : -k; magnitude > 1; magnitude >>= 1) ++binade;
  if (k == 1) binade = -1;
  constexpr int kCounts[] = {0, 0, 1, 2, 5, 11, 22, 44};  // floor(ln 2 · 2^binade), binade −1 … 6
  return kCounts[binade + 1];
}

/// floor(log2f(x)) of a normal x > 0 whose logarithm is rounded to nearest.
int floor_log2f(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const int below = static_cast<int>(0x800000u - (bits & 0x7FFFFFu));  // ulps to the next power of two
  return below <= floats_rounded_up(exponent + 1) ? exponent + 1 : exponent;
}

uint8_t mxfp4_scale(float amax) {
  if (std::isinf(amax)) throw Error("ggml's MXFP4 defines no scale for an infinite element");
  if (amax < 0x1p-126f) return 0;
  const int e = floor_log2f(amax) - 2 + 127;
  return static_cast<uint8_t>(e < 0 ? 0 : e);
}

/// 2^(e−128).
float mxfp4_half_scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

constexpr uint8_t kLargestScale = 0x7E;  // 448

/// UE4M3 of x, half an ulp rounded up; all of 256 … 448 and above is 448.
uint8_t nvfp4_scale(float x) {
  if (!(x > 0)) return 0;
  if (x >= 256) return kLargestScale;
  if (x < 0x1p-6f) {
    const int steps = static_cast<int>(x * 512.0f + 0.5f);
    return static_cast<uint8_t>(steps > 7 ? 7 : steps);
  }
  // exponent and 3 mantissa bits as one number, so that a carry moves into the exponent
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto code = static_cast<uint8_t>((bits >> 20) - ((127u - 7u) << 3) + (bits >> 19 & 1u));
  return code >= 15u << 3 ? kLargestScale : code;
}

/// Half the value of a scale byte.
float nvfp4_half_scale(uint8_t code) {
  if (code == 0 || code == 0x7F) return 0;
  const int exponent = code >> 3;
  const float fraction = static_cast<float>(code & 7) * 0x1p-3f;
  if (exponent == 0) return fraction * 0x1p-7f;
  return (1.0f + fraction) * std::bit_cast<float>(static_cast<uint32_t>(exponent - 8 + 127) << 23);
}

bool is_mxfp4(const GgmlLayout& layout) { return layout.scales == 1; }

/// Elements that share a scale.
int group_of(const GgmlLayout& layout) { return layout.block_elements / layout.scales; }

struct NibblePlace {
  int64_t byte;  // of the block
  int shift;
};
NibblePlace place_of(const GgmlLayout& layout, int64_t i) {
  const int64_t group = group_of(layout), half = group / 2, j = i % group;
  return {layout.scales + i / group * half + j % half, j < half ? 0 : 4};
}

void encode_block(const GgmlLayout& layout, const float* x, uint8_t* block) {
  const int group = group_of(layout);
  for (int b = 0; b < layout.block_bytes; ++b) block[b] = 0;
  for (int s = 0; s < layout.scales; ++s) {
    const float amax = amax_of(x + s * group, group);
    block[s] = is_mxfp4(layout) ? mxfp4_scale(amax) : nvfp4_scale(amax / 6.0f);
    const float half_scale = is_mxfp4(layout) ? mxfp4_half_scale(block[s]) : nvfp4_half_scale(block[s]);
    for (int i = s * group; i < (s + 1) * group; ++i) {
      const NibblePlace place = place_of(layout, i);
      block[place.byte] = static_cast<uint8_t>(block[place.byte] | nearest_code(x[i], half_scale) << place.shift);
    }
  }
}

void decode_block(const GgmlLayout& layout, const uint8_t* block, float* x) {
  for (int s = 0; s < layout.scales; ++s) {
    if (is_mxfp4(layout) ? block[s] == 0xFF : block[s] > 0x7F)
      throw Error(fmt::format("scale byte 0x{:02X} is none of ggml's {}", block[s], layout.name));
    const float half_scale = is_mxfp4(layout) ? mxfp4_half_scale(block[s]) : nvfp4_half_scale(block[s]);
    for (int i = s * group_of(layout); i < (s + 1) * group_of(layout); ++i)
      x[i] = kDoubled[ggml_code(layout, block, i)] * half_scale;
  }
}

void require_blocks(const GgmlLayout& layout, size_t elements, size_t bytes) {
  const auto n = static_cast<size_t>(layout.block_elements);
  if (elements % n != 0 || elements / n * static_cast<size_t>(layout.block_bytes) != bytes)
    throw Error(fmt::format("ggml {}: {} elements do not make {} bytes of blocks of {} elements in {} bytes",
                            layout.name, elements, bytes, n, layout.block_bytes));
}

}  // namespace

const GgmlLayout& ggml_layout(const QuantSpec& spec) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    if (ggml_spec(layout) == spec) return layout;
  throw UsageError("layout ggml has blocks for the specs mxfp4 and nvfp4 only, not for `" + to_string(spec) + "`");
}

QuantSpec ggml_spec(const GgmlLayout& layout) { return parse_quant_spec(layout.name); }

void ggml_encode(const GgmlLayout& layout, std::span<const float> x, std::span<uint8_t> blocks) {
  require_blocks(layout, x.size(), blocks.size());
  const float* from = x.data();
  for (size_t at = 0; at < blocks.size(); at += static_cast<size_t>(layout.block_bytes), from += layout.block_elements)
    encode_block(layout, from, blocks.data() + at);
}

void ggml_decode(const GgmlLayout& layout, std::span<const uint8_t> blocks, std::span<float> x) {
  require_blocks(layout, x.size(), blocks.size());
  float* to = x.data();
  for (size_t at = 0; at < blocks.size(); at += static_cast<size_t>(layout.block_bytes), to += layout.block_elements)
    decode_block(layout, blocks.data() + at, to);
}

uint32_t ggml_code(const GgmlLayout& layout, const uint8_t* block, int64_t i) {
  const NibblePlace place = place_of(layout, i);
  return static_cast<uint32_t>(block[place.byte] >> place.shift) & 0xFu;
}

}  // namespace fp4sim::io
