// cast between f32 and bf16: numerics.md §2 with rne and policy ieee, NaN canonical.
#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/kernels.h"

namespace fp4sim::scalar {

void kernels::cast(const NodeCall& call) {
  const int64_t n = element_count(call.in[0].type.shape);
  if (call.out[0].type.dtype == DType::bf16) {
    const float* x = in_data<float>(call.in[0]);
    for (int64_t i = 0; i < n; ++i)
      out_data<uint16_t>(call.out[0])[i] = static_cast<uint16_t>(encode_value(x[i], kBf16, Rounding::rne, true));
  } else {
    const uint16_t* x = in_data<uint16_t>(call.in[0]);
    for (int64_t i = 0; i < n; ++i) out_data<float>(call.out[0])[i] = decode_code(x[i], kBf16);
  }
}

}  // namespace fp4sim::scalar
