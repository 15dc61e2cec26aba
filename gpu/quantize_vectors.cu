// Fused quantization with one binary32 scale a row or a column.
#include "gpu/block_maxima.h"
#include "gpu/column_tile.cuh"
#include "gpu/divisor.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;

/// The scale of a vector from its amax, NaN for a nonfinite one.
__device__ float vector_scale(uint32_t amax, const Quantizer& q) {
  return amax < kF32Inf ? fp32_scale(amax, q) : canonical_nan();
}

/// The string of codes of four elements; beyond max_normal encode saturates as the clamp would.
template <class Encoder>
__device__ uint32_t four_codes(const Four& e, const Divisor& by, const Encoder& encoder) {
  const float y[kVector] = {by.quotient_of(e.v[0]), by.quotient_of(e.v[1]), by.quotient_of(e.v[2]),
                            by.quotient_of(e.v[3])};
  return encoder.four(y, 0);
}

/// One warp a row of at most kHeld·128 elements, which stay in registers.
template <int kHeld, class Encoder>
__global__ void __launch_bounds__(kThreads) quantize_short_rows(const float* x, int64_t rows, int fours, Quantizer q,
                                                                Encoder encoder, uint8_t* codes, float* scales) {
  const int64_t row = thread_number() / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  const float4* from = reinterpret_cast<const float4*>(x) + row * fours;
  Four held[kHeld] = {};
  float most = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (lane + i * kWarp < fours) held[i] = four_of(from[lane + i * kWarp]);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
#pragma unroll
    for (int k = 0; k < kVector; ++k) most = larger_magnitude(most, held[i].v[k]);
  const uint32_t amax = warp_max(magnitude_bits(most));
  const float scale = vector_scale(amax, q);
  const Divisor by(scale);
  if (lane == 0) scales[row] = scale;
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (lane + i * kWarp < fours)
      store_four_codes(codes, row * fours + lane + i * kWarp, encoder.bits(),
                       amax < kF32Inf ? four_codes(held[i], by, encoder) : 0u);
}

/// One block of threads a row, whose first elements stay in registers; the others are read again from the caches.
template <int kRowThreads, class Encoder>
__global__ void __launch_bounds__(kRowThreads)
    quantize_long_rows(const float* x, int64_t fours, Quantizer q, Encoder encoder, uint8_t* codes, float* scales) {
  constexpr int kHeld = 8;
  __shared__ uint32_t warps[kRowThreads / kWarp];
  const int64_t row = blockIdx.x, beyond = int64_t{kHeld} * kRowThreads + threadIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const float4* from = reinterpret_cast<const float4*>(x) + row * fours;
  const auto load = [from](int64_t i) { return four_of(from[i]); };
  Four held[kHeld] = {};
  float greatest = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (thread + i * kRowThreads < fours) held[i] = load(thread + i * kRowThreads);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    for (const float v : held[i].v) greatest = larger_magnitude(greatest, v);
#pragma unroll 4
  for (int64_t i = beyond; i < fours; i += kRowThreads)
    for (const float v : load(i).v) greatest = larger_magnitude(greatest, v);
  uint32_t amax = warp_max(magnitude_bits(greatest));
  if (thread % kWarp == 0) warps[thread / kWarp] = amax;
  __syncthreads();
  for (const uint32_t of_warp : warps) amax = max(amax, of_warp);

  const float scale = vector_scale(amax, q);
  const Divisor by(scale);
  if (thread == 0) scales[row] = scale;
  const auto write = [&](int64_t i, const Four& e) {
    store_four_codes(codes, row * fours + i, encoder.bits(), amax < kF32Inf ? four_codes(e, by, encoder) : 0u);
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (thread + i * kRowThreads < fours) write(thread + i * kRowThreads, held[i]);
#pragma unroll 4
  for (int64_t i = beyond; i < fours; i += kRowThreads) write(i, load(i));
}

/// Codes of a tile under the columns' maxima, which are known; the first tile of a column writes its scale.
template <class Encoder>
__global__ void __launch_bounds__(kTileThreads)
    quantize_long_columns(const float* x, Layout l, Quantizer q, const uint32_t* maxima, Encoder encoder,
                          uint8_t* codes, float* scales) {
  const ColumnTile tile = column_tile(l);
  if (tile.rows == 0) return;
  Four e[kThreadRows];
  load_tile(x, tile, l, e);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const int64_t column = tile.matrix * l.cols + tile.col + k;
    const uint32_t amax = maxima[column];
    const float scale = vector_scale(amax, q);
    const Divisor by(scale);
    if (tile.row == 0) scales[column] = scale;
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) e[r].v[k] = amax < kF32Inf ? by.quotient_of(e[r].v[k]) : 0.0f;
  }
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    if (r >= tile.rows) break;
    store_four_codes(codes, element_of(tile, l, r) / kVector, encoder.bits(), encoder.four(e[r].v, 0));
  }
}

template <class Encoder>
void rows(const QuantizeCall& call, const Encoder& encoder, Context& context) {
  const Layout& l = call.q.layout;
  const int64_t fours = l.cols / kVector;
  constexpr int kFew = 4, kMore = 12, kNarrow = 256, kWide = 512;
  if (fours <= kMore * kWarp) {
    const auto kernel =
        fours <= kFew * kWarp ? quantize_short_rows<kFew, Encoder> : quantize_short_rows<kMore, Encoder>;
    context.launch(kernel, Context::per_block(ceil_div(l.rows, kThreads / kWarp), kThreads), call.x, l.rows,
                   static_cast<int>(fours), call.q.quantizer, encoder, codes_of(call), scales_of<float>(call));
  } else {
    const bool narrow = fours <= 8 * kNarrow;  // in registers
    const auto kernel = narrow ? quantize_long_rows<kNarrow, Encoder> : quantize_long_rows<kWide, Encoder>;
    context.launch(kernel, Context::per_block(l.rows, narrow ? kNarrow : kWide), call.x, fours, call.q.quantizer,
                   encoder, codes_of(call), scales_of<float>(call));
  }
}

template <class Encoder>
void columns(const QuantizeCall& call, const Encoder& encoder, Context& context) {
  const Layout& l = call.q.layout;
  auto* maxima = context.scratch<uint32_t>(l.blocks);
  block_maxima(call.x, l, maxima, context);
  context.launch(quantize_long_columns<Encoder>, Context::per_block(column_tiles(l), kTileThreads), call.x, l,
                 call.q.quantizer, maxima, encoder, codes_of(call), scales_of<float>(call));
}

}  // namespace

bool fused_vectors_take(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  const MatrixView m = matrix_view(packed.shape);
  const bool vectors = s.granularity == Granularity::row || s.granularity == Granularity::col;
  return vectors && is_fused_quotient(s) && s.element.bits % 2 == 0 && m.rows > 0 && m.cols > 0 && m.cols % kGroup == 0;
}

void fused_vectors(const QuantizeCall& call, Context& context) {
  with_nearest_encoder(call.q.quantizer.element, [&](const auto& encoder) {
    if (call.q.layout.col_step > 1) return rows(call, encoder, context);
    columns(call, encoder, context);
  });
}

}  // namespace fp4sim::gpu
