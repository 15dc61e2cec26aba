// Blocks along the rows and down the columns of one tile: its elements are read once into registers, the lanes of a
// row's block find their amax by shuffles and the warps of a column's block through shared memory.
#include "gpu/quantize_both.h"

#include "gpu/column_blocks.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"

namespace fp4sim::gpu {
namespace {

/// Where one of the two packed values goes.
struct Target {
  uint8_t* codes;
  uint8_t* scales;
};

/// The largest word of the 4 or 8 neighbouring lanes that share a block of a row.
__device__ uint32_t row_block_max(uint32_t v, int lanes) {
  v = max(v, __shfl_xor_sync(kAllLanes, v, 1));
  v = max(v, __shfl_xor_sync(kAllLanes, v, 2));
  if (lanes == 8) v = max(v, __shfl_xor_sync(kAllLanes, v, 4));
  return v;
}

template <class Encoder>
__device__ void store_scaled(const Four& e, float factor, bool finite, int64_t index, const Encoder& encoder,
                             uint8_t* codes) {
  const float y[kVector] = {e.v[0] * factor, e.v[1] * factor, e.v[2] * factor, e.v[3] * factor};
  store_four_codes(codes, index, encoder.bits(), finite ? encoder.four(y, 0) : 0u);
}

/// `l`: the layout along the first axis; blocks along the last one have as many elements.
template <class Encoder>
__global__ void __launch_bounds__(kTileThreads)
    quantize_tiles(const float* x, Layout l, ScaleMaker maker, Encoder unready, Target last, Target first) {
  const auto& encoder = unready.ready();
  __shared__ ColumnBlocks shared;
  const ColumnTile tile = column_tile(l, blockIdx.x);
  const int lane = threadIdx.x % kWarp, block_size = static_cast<int>(l.row_step);
  Four e[kThreadRows];
  load_tile(x, tile, l, e);
  publish_maxima(e, shared);
  make_column_scales<false>(tile, l, maker, TensorScales{}, shared, first.scales);

  const int lanes = block_size / kVector;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    float of_four = 0;
#pragma unroll
    for (int k = 0; k < kVector; ++k) of_four = larger_magnitude(of_four, e[r].v[k]);
    const uint32_t amax = row_block_max(magnitude_bits(of_four), lanes);
    if (r >= tile.rows) continue;
    const BlockScale scale = maker.make<false>(amax, TensorScales{});
    const int64_t i = element_of(tile, l, r);
    store_scaled(e[r], scale.factor, amax < kF32Inf, i / kVector, encoder, last.codes);
    if (lane % lanes == 0) last.scales[i / block_size] = scale.code;
  }
  __syncthreads();
  store_column_codes(e, tile, l, shared, encoder, first.codes);
}

Target target_of(const NodeCall& call) {
  const PackedView q = view_of(call.out[0]);
  return {const_cast<uint8_t*>(q.codes), static_cast<uint8_t*>(const_cast<void*>(q.scales))};
}

bool same_bytes(const ValueType& t) { return fused_tensor_takes(t) || fused_wide_take(t); }

/// Specs with a tensor scale are left out: which blocks are finite, and so A, depends on the axis.
bool either_axis(const ValueType& a, const ValueType& b) {
  const ValueType &last = a.axis == Axis::last ? a : b, &first = a.axis == Axis::last ? b : a;
  return !has_tensor_scale(a.spec) && !is_stochastic(a.spec.rounding) && !uses_ieee(a.spec) &&
         fused_blocks_take(last, 0) && fused_columns_take(first, 0);
}

void quantize_same(const NodeCall& a, const NodeCall& b, Context& context) {
  const PackedView q = view_of(a.out[0]), twin = view_of(b.out[0]);
  const QuantizeCall call{in_data<float>(a, 0), q, {}, {}, nullptr};
  const auto scale = [](const PackedView& p) { return static_cast<float*>(const_cast<void*>(p.scales)); };
  const PackedCopies copies{{const_cast<uint8_t*>(q.codes), const_cast<uint8_t*>(twin.codes)}, {scale(q), scale(twin)}};
  if (fused_tensor_takes(a.out[0].type)) return fused_tensor(call, copies, context);
  fused_wide(call, copies, context);
}

}  // namespace

bool quantize_both_takes(const NodeCall& a, const NodeCall& b) {
  if (a.node.op != Op::quantize || b.node.op != Op::quantize || a.in.size() != 1 || b.in.size() != 1) return false;
  const Part &x = a.in[0].parts[0], &y = b.in[0].parts[0];
  const ValueType &p = a.out[0].type, &q = b.out[0].type;
  if (x.buffer != y.buffer || x.offset != y.offset || p.shape != q.shape || !(p.spec == q.spec)) return false;
  if (element_count(p.shape) == 0) return false;
  return same_bytes(p) || either_axis(p, q);
}

void quantize_both(const NodeCall& a, const NodeCall& b, Context& context) {
  if (same_bytes(a.out[0].type)) return quantize_same(a, b, context);
  const NodeCall &last = a.out[0].type.axis == Axis::last ? a : b, &first = a.out[0].type.axis == Axis::last ? b : a;
  const PackedView q = view_of(first.out[0]);
  const QuantizeCall call{in_data<float>(first, 0), q, {}, {}, nullptr};
  with_nearest_encoder(q.quantizer.element, [&](const auto& encoder) {
    using Encoder = std::decay_t<decltype(encoder)>;
    context.launch(quantize_tiles<Encoder>, Context::per_block(column_tiles(q.layout), kTileThreads), call.x, q.layout,
                   scale_maker_of(q.quantizer), encoder, target_of(last), target_of(first));
  });
}

}  // namespace fp4sim::gpu
