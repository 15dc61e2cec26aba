// Fused quantization with one binary32 scale for the whole tensor: a pass that leaves a few hundred maxima, and a pass
// that ends their reduction and writes the codes. The second walks backwards, so that it begins with what the first
// left in the caches.
#include "gpu/block_maxima.h"
#include "gpu/divisor.cuh"
#include "gpu/fused.cuh"
#include "gpu/fused_dispatch.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
static_assert(AmaxParts::kMost <= kThreads);  // one word a thread

/// Codes of kItems groups of eight of each thread, under the scale of the tensor.
template <int kItems, class Encoder>
__global__ void __launch_bounds__(kThreads) encode_tensor(const float* x, int64_t groups, Quantizer q, AmaxParts parts,
                                                          const float* given, Encoder encoder, PackedCopies copies) {
  __shared__ uint32_t warps[kThreads / kWarp];
  const int64_t tile = gridDim.x - 1 - blockIdx.x, first = tile * (kThreads * kItems) + threadIdx.x;
  Eight e[kItems] = {};
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (first + i * kThreads < groups) e[i] = load_eight(x + (first + i * kThreads) * kGroup);

  const uint32_t seen =
      block_maximum(static_cast<int>(threadIdx.x) < parts.count ? parts.words[threadIdx.x] : 0u, warps);
  const uint32_t amax = given != nullptr ? magnitude_bits(*given) : seen;
  const float scale = seen < kF32Inf ? fp32_scale(amax, q) : canonical_nan();
  const bool finite = scale == scale;
  if (blockIdx.x == 0 && threadIdx.x == 0)
    for (float* to : copies.scales)
      if (to != nullptr) *to = scale;
  const Divisor by(scale);
  const auto write = [&](const auto& quotient) {
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
  };
  // Elements may lie far beyond an amax that was given, where the quick quotients end.
  if (given == nullptr && by.quick()) {
    write([&](float v) { return by.quick_quotient(v); });
  } else {
    write([&](float v) { return by.slow_quotient(v); });
  }
}

}  // namespace

bool fused_tensor_takes(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  return s.granularity == Granularity::tensor && is_fused_quotient(s) && matrix_view(packed.shape).cols % kGroup == 0;
}

void fused_tensor(const QuantizeCall& call, const PackedCopies& copies, Context& context) {
  const int64_t elements = call.q.layout.elements(), groups = elements / kGroup;
  const AmaxParts parts = whole_amax(call.x, elements, context);
  with_nearest_encoder(call.q.quantizer.element, [&](const auto& encoder) {
    using Encoder = std::decay_t<decltype(encoder)>;
    // Small tensors: more blocks of threads rather than more work for each.
    const bool small = groups < int64_t{kThreads} * 8 * context.multiprocessors();
    const int items = small ? 1 : 2;
    const auto kernel = small ? encode_tensor<1, Encoder> : encode_tensor<2, Encoder>;
    context.launch(kernel, Context::per_block(ceil_div(groups, int64_t{kThreads} * items), kThreads), call.x, groups,
                   call.q.quantizer, parts, call.given_amax, encoder, copies);
  });
}

}  // namespace fp4sim::gpu
