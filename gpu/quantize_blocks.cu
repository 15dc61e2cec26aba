// Fused quantization of blocks along the rows: every thread takes eight neighbours at a time with two 16-byte loads;
// the two or four lanes of a block find its amax by shuffles.
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kItems = 2;  // groups of eight elements of one thread

/// The largest word of the 2 or 4 neighbouring lanes that share a block.
__device__ uint32_t block_max(uint32_t v, int lanes) {
  v = max(v, __shfl_xor_sync(kAllLanes, v, 1));
  if (lanes == 4) v = max(v, __shfl_xor_sync(kAllLanes, v, 2));
  return v;
}

/// Scales and codes of whole blocks that lie one after the other, each of 8·lanes elements.
template <bool two_level, class Encoder>
__global__ void __launch_bounds__(kThreads)
    quantize_blocks(const float* x, int64_t groups, int lanes, ScaleMaker maker, TensorPart part, Encoder encoder,
                    uint8_t* codes, uint8_t* scales) {
  __shared__ float tensor[2];  // S and d
  const int lane = threadIdx.x % kWarp;
  const int64_t first = thread_number() / kWarp * (kWarp * kItems) + lane;
  Eight e[kItems] = {};
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (first + i * kWarp < groups) e[i] = load_eight(x + (first + i * kWarp) * kGroup);
  if (two_level) {
    if (threadIdx.x < kWarp) part.find(maker.q, tensor);
    __syncthreads();
  }
  const TensorScales t{0, two_level ? tensor[0] : 1, two_level ? tensor[1] : 1};  // A has done its work
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t group = first + i * kWarp;
    const uint32_t amax = block_max(maximum_of(e[i]), lanes);
    if (group >= groups) continue;
    const BlockScale scale = maker.make<two_level>(amax, t);
    float low[4], high[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) low[k] = e[i].v[k] * scale.factor, high[k] = e[i].v[4 + k] * scale.factor;
    const bool finite = amax < kF32Inf;
    store_eight_codes(codes, group, encoder.bits(), finite ? encoder.four(low, group * kGroup) : 0u,
                      finite ? encoder.four(high, group * kGroup + 4) : 0u);
    if (lane % lanes == 0) scales[group / lanes] = scale.code;
  }
}

int64_t groups_of(const Layout& l) { return l.elements() / kGroup; }
int lanes_of(const Layout& l) { return static_cast<int>(l.col_step) / kGroup; }

}  // namespace

bool fused_blocks_take(const ValueType& packed, uint64_t first_element) {
  return is_fused_block(packed.spec, first_element) && packed.axis == Axis::last &&
         matrix_view(packed.shape).cols % packed.spec.block_size == 0;
}

void fused_blocks(const QuantizeCall& call, Context& context) {
  const Layout& l = call.q.layout;
  const int64_t groups = groups_of(l);
  with_encoder(call, [&](const auto& encoder) {
    using Encoder = std::decay_t<decltype(encoder)>;
    const auto kernel =
        call.q.tensor_scale != nullptr ? quantize_blocks<true, Encoder> : quantize_blocks<false, Encoder>;
    context.launch(kernel, Context::per_block(ceil_div(groups, kThreads * kItems), kThreads), call.x, groups,
                   lanes_of(l), scale_maker_of(call.q.quantizer), tensor_part(call), encoder, codes_of(call),
                   scales_of<uint8_t>(call));
  });
}

}  // namespace fp4sim::gpu
