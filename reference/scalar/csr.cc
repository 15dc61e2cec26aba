#include "reference/scalar/csr.h"

#include <bit>
#include <cmath>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"
#include "reference/scalar/codec.h"

namespace fp4sim::scalar {

float residual_value(const Tensor& csr, int64_t entry) {
  switch (csr.type.spec.occ.residual) {
    case ResidualFormat::fp32: return in_data<float>(csr, 2)[entry];
    case ResidualFormat::bf16: return decode_code(in_data<uint16_t>(csr, 2)[entry], kBf16);
    case ResidualFormat::e4m3: {
      const uint8_t scale = *in_data<uint8_t>(csr, 3);
      const float factor = scale == 0xFF ? std::bit_cast<float>(kF32CanonicalNaN) : std::ldexp(1.0f, scale - 127);
      return decode_code(in_data<uint8_t>(csr, 2)[entry], kE4m3) * factor;
    }
    case ResidualFormat::none: break;
  }
  throw Error("a csr value without residuals has no entries to read: " + to_string(csr.type));
}

}  // namespace fp4sim::scalar
