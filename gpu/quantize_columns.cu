// Fused quantization of blocks that run down the columns: a tile is read once; its warps share the columns' maxima, and
// each thread makes the scales of one column.
#include "gpu/column_tile.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kWarps = kTileThreads / kWarp;
constexpr int kMostBlocks = kTileRows / 16;  // scale blocks of one column of a tile

template <bool two_level, class Encoder>
__global__ void __launch_bounds__(kTileThreads)
    quantize_columns(const float* x, Layout l, ScaleMaker maker, TensorPart part, Encoder unready, uint8_t* codes,
                     uint8_t* scales) {
  __shared__ float tensor[2];  // S and d
  const auto& encoder = unready.ready();
  alignas(16) __shared__ float maxima[kWarps][kTileCols];
  alignas(16) __shared__ float factors[kMostBlocks][kTileCols];  // NaN for nonfinite blocks
  const ColumnTile tile = column_tile(
      l, two_level ? gridDim.x - 1 - blockIdx.x : blockIdx.x);  // backwards: what A's pass left in the caches
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  Four e[kThreadRows];
  load_tile(x, tile, l, e);
  if (two_level && threadIdx.x < kWarp) part.find(maker.q, tensor);
  Four most = {};
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r)
#pragma unroll
    for (int k = 0; k < kVector; ++k) most.v[k] = larger_magnitude(most.v[k], e[r].v[k]);
  *reinterpret_cast<float4*>(&maxima[warp][lane * kVector]) = make_float4(most.v[0], most.v[1], most.v[2], most.v[3]);
  __syncthreads();

  const int block_rows = static_cast<int>(l.row_step), blocks = kTileRows / block_rows;
  const int warps_of_block = block_rows / kThreadRows, mine = static_cast<int>(threadIdx.x);
  const TensorScales t{0, two_level ? tensor[0] : 1, two_level ? tensor[1] : 1};  // A has done its work
  for (int b = 0; b < blocks; ++b) {
    float amax = 0;
    for (int w = 0; w < warps_of_block; ++w) amax = larger_magnitude(amax, maxima[b * warps_of_block + w][mine]);
    const BlockScale scale = maker.make<two_level>(magnitude_bits(amax), t);
    factors[b][mine] = magnitude_bits(amax) < kF32Inf ? scale.factor : canonical_nan();
    const int64_t grid_row = tile.tile_row * blocks + b, col = tile.first_col + mine;
    if (grid_row < l.grid_rows && col < l.cols)
      scales[(tile.matrix * l.grid_rows + grid_row) * l.cols + col] = scale.code;
  }
  __syncthreads();

  const float* factor = &factors[warp / warps_of_block][lane * kVector];
  const int bits = encoder.bits();
  uint32_t finite = 0;  // ones for the codes of finite blocks; the others are +0
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    if (factor[k] == factor[k]) finite |= ((1u << bits) - 1u) << (k * bits);
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    if (r >= tile.rows) break;
    float y[kVector];
#pragma unroll
    for (int k = 0; k < kVector; ++k) y[k] = e[r].v[k] * factor[k];
    const int64_t i = element_of(tile, l, r);
    store_four_codes(codes, i / kVector, bits, encoder.four(y, i) & finite);
  }
}

}  // namespace

bool fused_columns_take(const ValueType& packed, uint64_t first_element) {
  return is_fused_block(packed.spec, first_element) && packed.axis == Axis::first &&
         packed.spec.element.bits % 2 == 0 && matrix_view(packed.shape).cols % kGroup == 0;
}

void fused_columns(const QuantizeCall& call, Context& context) {
  const Layout& l = call.q.layout;
  with_encoder(call, [&](const auto& encoder) {
    using Encoder = std::decay_t<decltype(encoder)>;
    const auto kernel =
        call.q.tensor_scale != nullptr ? quantize_columns<true, Encoder> : quantize_columns<false, Encoder>;
    context.launch(kernel, Context::per_block(column_tiles(l), kTileThreads), call.x, l,
                   scale_maker_of(call.q.quantizer), tensor_part(call), encoder, codes_of(call),
                   scales_of<uint8_t>(call));
  });
}

}  // namespace fp4sim::gpu
