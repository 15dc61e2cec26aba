// The scale codes of a row: the largest decides which power of two the row's bytes are multiples of, the smallest
// whether integers hold them.
#pragma once

#include "gpu/widening.cuh"

namespace fp4sim::gpu {

/// What a row's codes of e8m0 are, NaN aside.
struct RowSpan {
  int top;  // the largest; 0: there are only zeros
  int low;  // the smallest but 0
};

/// Largest and smallest of codes that come four a word; in 16 bits each: code + 1, where NaN is 0, and 256 − code,
/// where code 0 is 0.
struct FourSpans {
  uint32_t up[2] = {0, 0}, down[2] = {0, 0};  // of bytes 0 and 2, of bytes 1 and 3
  uint32_t nan = 0;

  __device__ void add(uint32_t codes) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const uint32_t two = codes >> (8 * odd) & 0x00FF00FFu, next = two + 0x00010001u;
      up[odd] = __vmaxu2(up[odd], next & 0x00FF00FFu);
      nan |= next & 0x01000100u;
      down[odd] = __vmaxu2(down[odd], (0x01000100u - two) & 0x00FF00FFu);
    }
  }
};

__device__ inline RowSpan span_of(uint32_t up, uint32_t down) {
  return {up == 0 ? 0 : static_cast<int>(up) - 1, 256 - static_cast<int>(down)};
}

__device__ inline int64_t scale_blocks(int64_t k) { return (k + (1 << kBlockShift) - 1) >> kBlockShift; }

/// The largest of both halves of two words in `lanes` neighbouring lanes.
template <int lanes>
__device__ inline uint32_t largest_half(uint32_t a, uint32_t b) {
  a = __vmaxu2(a, b);
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2) a = __vmaxu2(a, __shfl_xor_sync(kAllLanes, a, distance));
  return max(a & 0xFFFFu, a >> 16);
}

/// Spans of the rows of a piece, from the warps of a block of threads: [warp][eight rows]; unused where a row is the
/// business of one warp.
struct SpanTable {
  uint4 up[kWideningWarps][kWideRows / kGroupRows], down[kWideningWarps][kWideRows / kGroupRows];
};

/// The spans of the thread's rows, each of which eight neighbouring lanes share; true if there is a NaN.
template <bool whole>
__device__ bool find_spans(const NumberedPiece& p, SpanTable&, RowSpan (&spans)[kAlongRows]) {
  const int lane = static_cast<int>(threadIdx.x) % kChunks;
  const int64_t blocks = scale_blocks(p.w.k);
  FourSpans found[kAlongRows];
  const auto add_all = [&](auto zero, const auto& add) {
    using Word = decltype(zero);
    constexpr int kCodes = sizeof(Word);
    const uint8_t* codes[kAlongRows];
#pragma unroll
    for (int r = 0; r < kAlongRows; ++r) codes[r] = scale_codes(p, source_row<kAlongRows>(p, r));
#pragma unroll 1
    for (int64_t block = lane * kCodes; block < blocks; block += kChunks * kCodes) {
      Word words[kAlongRows];
#pragma unroll
      for (int r = 0; r < kAlongRows; ++r) words[r] = __ldg(reinterpret_cast<const Word*>(codes[r] + block));
#pragma unroll
      for (int r = 0; r < kAlongRows; ++r) add(found[r], words[r]);
    }
  };
  if (blocks % 16 == 0) {
    add_all(uint4{}, [](auto& span, const uint4& v) { span.add(v.x), span.add(v.y), span.add(v.z), span.add(v.w); });
  } else if (blocks % 4 == 0) {
    add_all(uint32_t{}, [](auto& span, uint32_t v) { span.add(v); });
  } else {
    add_all(uint8_t{}, [](auto& span, uint8_t v) { span.add(v); });
  }
  uint32_t nan = 0;
#pragma unroll
  for (int r = 0; r < kAlongRows; ++r) {
    const FourSpans& f = found[r];
    nan |= f.nan;
    const uint32_t up = largest_half<kChunks>(f.up[0], f.up[1]);
    spans[r] = span_of(up, largest_half<kChunks>(f.down[0], f.down[1]));
  }
  return nan != 0;
}

/// The largest of the words of four lanes that have the same rows, and of all warps that have them.
__device__ inline void publish_largest(uint32_t (&words)[4], uint4 (&table)[kWideningWarps][kWideRows / kGroupRows]) {
#pragma unroll
  for (uint32_t& v : words) {
    v = __vmaxu2(v, __shfl_xor_sync(kAllLanes, v, 8));
    v = __vmaxu2(v, __shfl_xor_sync(kAllLanes, v, 16));
  }
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % kWarp < kWideRows / kGroupRows)
    table[thread / kWarp][thread % kWarp] = make_uint4(words[0], words[1], words[2], words[3]);
}
__device__ inline void collect_largest(uint32_t (&words)[4],
                                       const uint4 (&table)[kWideningWarps][kWideRows / kGroupRows]) {
#pragma unroll
  for (int warp = 0; warp < kWideningWarps; ++warp) {
    const uint4 v = table[warp][threadIdx.x % kGroupRows];
    words[0] = __vmaxu2(words[0], v.x), words[1] = __vmaxu2(words[1], v.y);
    words[2] = __vmaxu2(words[2], v.z), words[3] = __vmaxu2(words[3], v.w);
  }
}

/// The spans of the thread's eight rows, whose codes lie side by side; true if there is a NaN.
template <bool whole>
__device__ bool find_spans(const NumberedPiece& p, SpanTable& table, RowSpan (&spans)[kGroupRows]) {
  constexpr int kTogether = kWideningThreads / kGroupRows;
  const int64_t row = source_row<kGroupRows>(p, 0), blocks = scale_blocks(p.w.k), step = p.w.places.block_step;
  const int rows = static_cast<int>(least(p.w.rows - row, kGroupRows));
  const bool one = p.w.places.row_shift != 0;
  const uint8_t* codes = scale_codes(p, row);
  FourSpans found[2];
#pragma unroll(whole ? 8 : 1)
  for (int64_t block = threadIdx.x / kGroupRows; block < blocks; block += kTogether) {
    const uint2 eight = eight_scales<whole>(codes + block * step, one, rows);
    found[0].add(eight.x), found[1].add(eight.y);
  }
  uint32_t up[4] = {found[0].up[0], found[0].up[1], found[1].up[0], found[1].up[1]};
  uint32_t down[4] = {found[0].down[0], found[0].down[1], found[1].down[0], found[1].down[1]};
  publish_largest(up, table.up);
  publish_largest(down, table.down);
  __syncthreads();
  collect_largest(up, table.up);
  collect_largest(down, table.down);
#pragma unroll
  for (int r = 0; r < kGroupRows; ++r) {
    const int word = r / 4 * 2 + r % 2, shift = r / 2 % 2 * 16;
    spans[r] = span_of(up[word] >> shift & 0xFFFFu, down[word] >> shift & 0xFFFFu);
  }
  return (found[0].nan | found[1].nan) != 0;
}

}  // namespace fp4sim::gpu
