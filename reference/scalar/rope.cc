// Rotary position embedding: pairs of a row turned by the row's table angles.
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"

namespace fp4sim::scalar::kernels {

void rope(const NodeCall& call) {
  const MatrixView m = matrix_view(call.in[0].type.shape);  // matrices of (S, D)
  const int64_t half = m.cols / 2;
  const bool interleaved = call.node.attrs.text("style") == "interleaved";
  const bool inverse = call.node.attrs.integer_or("inverse", 0) != 0;
  const float *cosines = in_data<float>(call.in[1]), *sines = in_data<float>(call.in[2]);
  for (int64_t row = 0; row < m.matrices * m.rows; ++row) {
    const float* x = in_data<float>(call.in[0]) + row * m.cols;
    float* y = out_data<float>(call.out[0]) + row * m.cols;
    const int64_t position = row % m.rows;
    for (int64_t i = 0; i < half; ++i) {
      const int64_t i0 = interleaved ? 2 * i : i, i1 = interleaved ? 2 * i + 1 : i + half;
      const float c = cosines[position * half + i];
      const float s = inverse ? -sines[position * half + i] : sines[position * half + i];
      y[i0] = std::fma(-x[i1], s, x[i0] * c);
      y[i1] = std::fma(x[i1], c, x[i0] * s);
    }
  }
}

}  // namespace fp4sim::scalar::kernels
