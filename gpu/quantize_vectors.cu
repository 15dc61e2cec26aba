// Fused quantization with one binary32 scale a row or a column.
#include "gpu/block_maxima.h"
#include "gpu/column_tile.cuh"
#include "gpu/divisor.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"
#include "gpu/hopper.cuh"
#include "gpu/tensor_core.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;

/// The scale of a vector from its amax, NaN for a nonfinite one.
__device__ float vector_scale(uint32_t amax, const Quantizer& q) {
  return amax < kF32Inf ? fp32_scale(amax, q) : canonical_nan();
}

/// The string of codes of four elements; beyond max_normal encode saturates as the clamp would.
template <class Quotient, class Encoder>
__device__ uint32_t four_codes(const Four& e, const Quotient& quotient, const Encoder& encoder) {
  const float y[kVector] = {quotient(e.v[0]), quotient(e.v[1]), quotient(e.v[2]), quotient(e.v[3])};
  return encoder.four(y, 0);
}

/// Calls write(quotient) with the function that divides by a scale: one branch for all quotients.
template <class Write>
__device__ void with_quotient(const Divisor& by, const Write& write) {
  if (by.quick()) {
    write([&](float x) { return by.quick_quotient(x); });
  } else {
    write([&](float x) { return by.slow_quotient(x); });
  }
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
  with_quotient(by, [&](const auto& quotient) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (lane + i * kWarp < fours)
        store_four_codes(codes, row * fours + lane + i * kWarp, encoder.bits(),
                         amax < kF32Inf ? four_codes(held[i], quotient, encoder) : 0u);
  });
}

constexpr int kHeldFours = 8;  // of one thread, of a row that shared memory holds
constexpr int kRing = 3;       // rows of a block of threads: one in work, two on their way

/// Rows of at most kHeldFours·4·kRowThreads elements, a grid apart: each thread copies its elements of the rows to come
/// into a ring that only it reads.
template <int kRowThreads, class Encoder>
__global__ void __launch_bounds__(kRowThreads) quantize_ring_rows(const float4* x, int64_t rows, int fours, Quantizer q,
                                                                  Encoder encoder, uint8_t* codes, float* scales) {
  auto* ring = reinterpret_cast<float4*>(dynamic_shared());  // [kRing][kHeldFours][kRowThreads]
  __shared__ uint32_t warps[2][kRowThreads / kWarp];         // of alternate rows
  const int thread = static_cast<int>(threadIdx.x);
  const auto slot = [&](int stage, int i) { return ring + (stage * kHeldFours + i) * kRowThreads + thread; };
  const auto request = [&](int64_t row, int stage) {
#pragma unroll
    for (int i = 0; i < kHeldFours; ++i)
      if (row < rows && thread + i * kRowThreads < fours)
        copy_async16(slot(stage, i), x + row * fours + thread + i * kRowThreads);
    commit_copies();
  };
  for (int stage = 0; stage < kRing - 1; ++stage) request(blockIdx.x + int64_t{stage} * gridDim.x, stage);
  int stage = 0, parity = 0;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    request(row + int64_t{kRing - 1} * gridDim.x, stage == 0 ? kRing - 1 : stage - 1);
    wait_copies<kRing - 1>();
    Four held[kHeldFours] = {};
    float most = 0;
#pragma unroll
    for (int i = 0; i < kHeldFours; ++i)
      if (thread + i * kRowThreads < fours) held[i] = four_of(*slot(stage, i));
#pragma unroll
    for (int i = 0; i < kHeldFours; ++i)
#pragma unroll
      for (const float v : held[i].v) most = larger_magnitude(most, v);
    const uint32_t amax = block_maximum(magnitude_bits(most), warps[parity]);
    const float scale = vector_scale(amax, q);
    const Divisor by(scale);
    if (thread == 0) scales[row] = scale;
    with_quotient(by, [&](const auto& quotient) {
#pragma unroll
      for (int i = 0; i < kHeldFours; ++i)
        if (thread + i * kRowThreads < fours)
          store_four_codes(codes, row * fours + thread + i * kRowThreads, encoder.bits(),
                           amax < kF32Inf ? four_codes(held[i], quotient, encoder) : 0u);
    });
    stage = stage == kRing - 1 ? 0 : stage + 1;
    parity ^= 1;
  }
}

/// One block of threads a row of any length, read twice.
template <class Encoder>
__global__ void __launch_bounds__(kThreads)
    quantize_any_rows(const float4* x, int64_t fours, Quantizer q, Encoder encoder, uint8_t* codes, float* scales) {
  __shared__ uint32_t warps[kThreads / kWarp];
  const int64_t first = blockIdx.x * fours;
  float most = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < fours; i += kThreads)
    for (const float v : four_of(x[first + i]).v) most = larger_magnitude(most, v);
  const uint32_t amax = block_maximum(magnitude_bits(most), warps);
  const float scale = vector_scale(amax, q);
  const Divisor by(scale);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  with_quotient(by, [&](const auto& quotient) {
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < fours; i += kThreads)
      store_four_codes(codes, first + i, encoder.bits(),
                       amax < kF32Inf ? four_codes(four_of(x[first + i]), quotient, encoder) : 0u);
  });
}

/// Codes of a tile under the columns' maxima, which are known; the first tile of a column writes its scale.
template <class Encoder>
__global__ void __launch_bounds__(kTileThreads)
    quantize_long_columns(const float* x, Layout l, Quantizer q, const uint32_t* maxima, Encoder encoder,
                          uint8_t* codes, float* scales) {
  const ColumnTile tile =
      column_tile(l, gridDim.x - 1 - blockIdx.x);  // backwards: what the maxima's pass left in the caches
  if (tile.rows == 0) return;
  Four e[kThreadRows];
  load_tile(x, tile, l, e);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const int64_t column = tile.matrix * l.cols + tile.col + k;
    const uint32_t amax = maxima[column];
    const float scale = vector_scale(amax, q);
    if (tile.row == 0) scales[column] = scale;
    with_quotient(Divisor(scale), [&](const auto& quotient) {
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) e[r].v[k] = amax < kF32Inf ? quotient(e[r].v[k]) : 0.0f;
    });
  }
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    if (r >= tile.rows) break;
    store_four_codes(codes, element_of(tile, l, r) / kVector, encoder.bits(), encoder.four(e[r].v, 0));
  }
}

template <int kRowThreads, class Encoder>
void ring_rows(const QuantizeCall& call, const Encoder& encoder, Context& context) {
  const Layout& l = call.q.layout;
  constexpr int kBytes = kRing * kHeldFours * kRowThreads * static_cast<int>(sizeof(float4));
  constexpr int kPerMultiprocessor = 512 / kRowThreads;  // as many as shared memory holds
  const auto kernel = quantize_ring_rows<kRowThreads, Encoder>;
  FP4SIM_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int64_t blocks = std::min<int64_t>(l.rows, int64_t{kPerMultiprocessor} * context.multiprocessors());
  context.launch(kernel, Context::per_block(blocks, kRowThreads, kBytes), reinterpret_cast<const float4*>(call.x),
                 l.rows, static_cast<int>(l.cols / kVector), call.q.quantizer, encoder, codes_of(call),
                 scales_of<float>(call));
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
  } else if (fours <= kHeldFours * kNarrow) {
    ring_rows<kNarrow>(call, encoder, context);
  } else if (fours <= kHeldFours * kWide) {
    ring_rows<kWide>(call, encoder, context);
  } else {
    context.launch(quantize_any_rows<Encoder>, Context::per_block(l.rows, kThreads),
                   reinterpret_cast<const float4*>(call.x), fours, call.q.quantizer, encoder, codes_of(call),
                   scales_of<float>(call));
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
