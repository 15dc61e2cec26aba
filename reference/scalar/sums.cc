// Sums as ops: mean and column_sum.
#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {

void mean(const NodeCall& call) {
  const int64_t n = element_count(call.in[0].type.shape);
  *out_data<float>(call.out[0]) = rowsum(in_data<float>(call.in[0]), n) / static_cast<float>(n);
}

void column_sum(const NodeCall& call) {
  const int64_t columns = call.node.attrs.integer("columns");
  const int64_t rows = element_count(call.in[0].type.shape) / columns;
  scalar::column_sum(in_data<float>(call.in[0]), rows, columns, out_data<float>(call.out[0]));
}

}  // namespace fp4sim::scalar::kernels
