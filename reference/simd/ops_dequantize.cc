// dequantize of the simd backend (numerics.md §4): the codes' values times the stored scales.
#include <cstring>

#include "reference/contract/host_backend.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_plan.h"
#include "reference/simd/quant_walk.h"

namespace fp4sim::simd {

void ops::dequantize(const NodeCall& call, const Context& context) {
  const Tensor& q = call.in[0];
  const QuantSpec& spec = q.type.spec;
  float* out = out_data<float>(call.out[0]);
  if (is_identity_f32(spec.element)) {
    const int64_t n = element_count(q.type.shape);
    if (n > 0) std::memcpy(out, in_data<float>(q), static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const ElementFormat format = element_of(q);
  const CodeValues values(format);
  const Codec codec = decode_codec(spec, format, values);
  const ScalePlan plan = stored_scale_plan(spec, q);
  const float* d = has_tensor_scale(spec) ? &plan.d : nullptr;
  const auto* codes = in_data<uint8_t>(q);
  const DecodeKernels& kernels = pick_decode_kernels(context.level);
  for_segments(q, plan, kDecodeFactors, context,
               [&](const Segment& s) { kernels.decode(codec, codes + s.codes, s.n, s.decode, d, out + s.begin); });
}

}  // namespace fp4sim::simd
