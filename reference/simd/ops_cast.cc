// cast of the simd backend: binary32 to bf16 (rne, ieee, NaN canonical) and back (exact).
#include "reference/contract/host_backend.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_plan.h"

namespace fp4sim::simd {

void ops::cast(const NodeCall& call, const Context& context) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t n = element_count(call.in[0].type.shape);
  const Codec codec = make_codec(kBf16, Rounding::rne, true, false);
  const BlockFactors none{nullptr, kOneBlock};
  if (call.out[0].type.dtype == DType::bf16) {
    const EncodeJob job{codec, Scaling::none, {}};
    const EncodeKernels& kernels = pick_encode_kernels(context.level);
    const float* x = in_data<float>(call.in[0]);
    auto* y = out_data<uint8_t>(call.out[0]);
    parallel_for(context, n, kGrain, [&](int64_t begin, int64_t end) {
      kernels.encode(job, x + begin, end - begin, none, begin, y + 2 * begin);
    });
    return;
  }
  const DecodeKernels& kernels = pick_decode_kernels(context.level);
  const auto* x = in_data<uint8_t>(call.in[0]);
  float* y = out_data<float>(call.out[0]);
  parallel_for(context, n, kGrain, [&](int64_t begin, int64_t end) {
    kernels.decode(codec, x + 2 * begin, end - begin, none, nullptr, y + begin);
  });
}

}  // namespace fp4sim::simd
