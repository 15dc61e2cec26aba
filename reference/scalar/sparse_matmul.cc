// sparse_matmul: the residual part of an OCC product, one fma chain per element and no panels (numerics.md §6).
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/csr.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/operand.h"

namespace fp4sim::scalar::kernels {

void sparse_matmul(const NodeCall& call) {
  const Tensor& csr = call.in[0];
  const Operand dense(call.in[1], parse_axis(call.node.attrs.text("other_axis")));
  const std::vector<float> other = dense.decoded();
  const bool csr_is_a = call.node.attrs.text("side") == "a";
  const auto* row_ptr = in_data<int64_t>(csr, 0);
  const auto* column = in_data<int32_t>(csr, 1);
  const int64_t vectors = vector_view(csr.type.shape, csr.type.axis).vectors;
  float* y = out_data<float>(call.out[0]);
  for (int64_t v = 0; v < vectors; ++v) {
    for (int64_t r = 0; r < dense.rows(); ++r) {
      float acc = 0.0f;
      for (int64_t entry = row_ptr[v]; entry < row_ptr[v + 1]; ++entry)
        acc = std::fma(residual_value(csr, entry), other[static_cast<size_t>(r * dense.k() + column[entry])], acc);
      y[csr_is_a ? v * dense.rows() + r : r * vectors + v] = acc;
    }
  }
}

}  // namespace fp4sim::scalar::kernels
