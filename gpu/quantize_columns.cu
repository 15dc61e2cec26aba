// Fused quantization of blocks that run down the columns: a tile is read once; its warps share the columns' maxima, and
// each thread makes the scales of one column.
#include "gpu/column_blocks.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"

namespace fp4sim::gpu {
namespace {

template <bool two_level, class Encoder>
__global__ void __launch_bounds__(kTileThreads)
    quantize_columns(const float* x, Layout l, ScaleMaker maker, TensorPart part, Encoder unready, uint8_t* codes,
                     uint8_t* scales) {
  __shared__ float tensor[2];  // S and d
  const auto& encoder = unready.ready();
  __shared__ ColumnBlocks shared;
  const ColumnTile tile = column_tile(
      l, two_level ? gridDim.x - 1 - blockIdx.x : blockIdx.x);  // backwards: what A's pass left in the caches
  Four e[kThreadRows];
  load_tile(x, tile, l, e);
  if (two_level && threadIdx.x < kWarp) part.find(maker.q, tensor);
  publish_maxima(e, shared);
  const TensorScales t{0, two_level ? tensor[0] : 1, two_level ? tensor[1] : 1};  // A has done its work
  make_column_scales<two_level>(tile, l, maker, t, shared, scales);
  __syncthreads();
  store_column_codes(e, tile, l, shared, encoder, codes);
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
