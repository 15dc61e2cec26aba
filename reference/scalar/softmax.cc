// causal_softmax and its gradient (numerics.md §9): row i of each (S, S) matrix uses columns j ≤ i only.
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/scalar/elementary.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {

void causal_softmax(const NodeCall& call) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const auto scale = static_cast<float>(call.node.attrs.number("scale"));
  std::vector<float> e(static_cast<size_t>(m.cols));
  for (int64_t row = 0; row < m.matrices * m.rows; ++row) {
    const float* z = in_data<float>(call.in[0]) + row * m.cols;
    float* p = out_data<float>(call.out[0]) + row * m.cols;
    const int64_t n = row % m.rows + 1;
    for (int64_t j = 0; j < n; ++j) e[static_cast<size_t>(j)] = z[j] * scale;
    const float mx = max_of(e.data(), n);
    for (int64_t j = 0; j < n; ++j) e[static_cast<size_t>(j)] = exp_f32(e[static_cast<size_t>(j)] - mx);
    const float sum = rowsum(e.data(), n);
    for (int64_t j = 0; j < m.cols; ++j) p[j] = j < n ? e[static_cast<size_t>(j)] / sum : 0.0f;
  }
}

void causal_softmax_grad(const NodeCall& call) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const auto scale = static_cast<float>(call.node.attrs.number("scale"));
  for (int64_t row = 0; row < m.matrices * m.rows; ++row) {
    const float *dp = in_data<float>(call.in[0]) + row * m.cols, *p = in_data<float>(call.in[1]) + row * m.cols;
    float* dz = out_data<float>(call.out[0]) + row * m.cols;
    const int64_t n = row % m.rows + 1;
    const float t = rowsum_products(dp, p, n);
    for (int64_t j = 0; j < m.cols; ++j) dz[j] = j < n ? (p[j] * (dp[j] - t)) * scale : 0.0f;
  }
}

}  // namespace fp4sim::scalar::kernels
