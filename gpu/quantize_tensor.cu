// Fused quantization with one binary32 scale for the whole tensor: a pass that leaves a few hundred maxima, and a pass
// that ends their reduction and writes the codes. The second walks backwards, so that it begins with what the first
// left in the caches.
#include "gpu/divisor.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kMaximaThreads = 1024;
constexpr int kMostMaxima =
    256;  // one for each block of threads of the first pass: one load of each thread of the second
constexpr int kThreads = 256;
static_assert(kMostMaxima <= kThreads);

/// The largest word of the block's threads, in every thread. `warps`: a word of shared memory for each warp.
template <int kWarps>
__device__ uint32_t block_maximum(uint32_t v, uint32_t (&warps)[kWarps]) {
  v = warp_max(v);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = v;
  __syncthreads();
#pragma unroll
  for (const uint32_t w : warps) v = max(v, w);
  return v;
}

/// maxima[b]: the largest magnitude_bits of what block b of threads saw, from kF32Inf on if one is NaN or Inf.
__global__ void __launch_bounds__(kMaximaThreads) part_maxima(const float4* x, int64_t fours, uint32_t* maxima) {
  constexpr int kAtOnce = 4;
  __shared__ uint32_t warps[kMaximaThreads / kWarp];
  const int64_t step = int64_t{gridDim.x} * kMaximaThreads;
  float most = 0;
  for (int64_t first = thread_number(); first < fours; first += step * kAtOnce) {
    float4 e[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) e[i] = first + i * step < fours ? x[first + i * step] : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      most = larger_magnitude(larger_magnitude(most, e[i].x), e[i].y);
      most = larger_magnitude(larger_magnitude(most, e[i].z), e[i].w);
    }
  }
  const uint32_t maximum = block_maximum(magnitude_bits(most), warps);
  if (threadIdx.x == 0) maxima[blockIdx.x] = maximum;
}

/// Codes of kItems groups of eight of each thread, under the scale of the tensor.
template <int kItems, class Encoder>
__global__ void __launch_bounds__(kThreads)
    encode_tensor(const float* x, int64_t groups, Quantizer q, const uint32_t* maxima, int count, const float* given,
                  Encoder encoder, PackedCopies copies) {
  __shared__ uint32_t warps[kThreads / kWarp];
  const int64_t tile = gridDim.x - 1 - blockIdx.x, first = tile * (kThreads * kItems) + threadIdx.x;
  Eight e[kItems] = {};
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (first + i * kThreads < groups) e[i] = load_eight(x + (first + i * kThreads) * kGroup);

  const uint32_t seen = block_maximum(static_cast<int>(threadIdx.x) < count ? maxima[threadIdx.x] : 0u, warps);
  const uint32_t amax = given != nullptr ? magnitude_bits(*given) : seen;
  const float scale = seen < kF32Inf ? fp32_scale(amax, q) : canonical_nan();
  const bool finite = scale == scale;
  if (blockIdx.x == 0 && threadIdx.x == 0)
    for (float* to : copies.scales)
      if (to != nullptr) *to = scale;
  const Divisor by(scale);
  // Elements may lie far beyond an amax that was given, where the quick quotients end.
  const auto quotient = [&](float v) { return given != nullptr ? v / scale : by.quotient_of(v); };
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t group = first + i * kThreads;
    if (group >= groups) return;
    float low[4], high[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) low[k] = quotient(e[i].v[k]), high[k] = quotient(e[i].v[4 + k]);
    const uint32_t of_low = finite ? encoder.four(low, group * kGroup) : 0u;
    const uint32_t of_high = finite ? encoder.four(high, group * kGroup + 4) : 0u;
    for (uint8_t* to : copies.codes)
      if (to != nullptr) store_eight_codes(to, group, encoder.bits(), of_low, of_high);
  }
}

}  // namespace

bool fused_tensor_takes(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  return s.granularity == Granularity::tensor && is_fused_quotient(s) && matrix_view(packed.shape).cols % kGroup == 0;
}

void fused_tensor(const QuantizeCall& call, const PackedCopies& copies, Context& context) {
  const int64_t elements = call.q.layout.elements(), fours = elements / 4, groups = elements / kGroup;
  const int64_t parts = std::min<int64_t>(ceil_div(fours, kMaximaThreads), kMostMaxima);
  auto* maxima = context.scratch<uint32_t>(kMostMaxima);
  context.launch(part_maxima, Context::per_block(parts, kMaximaThreads), reinterpret_cast<const float4*>(call.x), fours,
                 maxima);
  with_nearest_encoder(call.q.quantizer.element, [&](const auto& encoder) {
    using Encoder = std::decay_t<decltype(encoder)>;
    // Small tensors: more blocks of threads rather than more work for each.
    const bool small = groups < int64_t{kThreads} * 8 * context.multiprocessors();
    const int items = small ? 1 : 2;
    const auto kernel = small ? encode_tensor<1, Encoder> : encode_tensor<2, Encoder>;
    context.launch(kernel, Context::per_block(ceil_div(groups, int64_t{kThreads} * items), kThreads), call.x, groups,
                   call.q.quantizer, maxima, static_cast<int>(parts), call.given_amax, encoder, copies);
  });
}

}  // namespace fp4sim::gpu
