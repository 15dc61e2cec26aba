// rope: one thread turns one pair of a row by the row's table angle.
#include "gpu/arithmetic.cuh"
#include "gpu/map.cuh"
#include "gpu/ops.h"

namespace fp4sim::gpu::ops {
namespace {

struct Layout {
  int64_t pairs, positions, half;  // pairs in all, rows of a matrix, pairs of a row
  bool interleaved, inverse;
};

__global__ void rope_kernel(const float* x, const float* cosines, const float* sines, float* y, Layout s) {
  const int64_t pair = thread_index();
  if (pair >= s.pairs) return;
  const int64_t row = quotient(pair, s.half), i = pair - row * s.half;
  const int64_t angle = (row - quotient(row, s.positions) * s.positions) * s.half + i;
  const int64_t base = row * 2 * s.half;
  const int64_t i0 = base + (s.interleaved ? 2 * i : i), i1 = s.interleaved ? i0 + 1 : i0 + s.half;
  const float c = cosines[angle], sine = s.inverse ? -sines[angle] : sines[angle];
  const float x0 = x[i0], x1 = x[i1];
  y[i0] = fma32(-x1, sine, x0 * c);
  y[i1] = fma32(x1, c, x0 * sine);
}

}  // namespace

void rope(const NodeCall& call, Context& context) {
  const MatrixView m = matrix_view(call.in[0].type.shape);  // matrices of (S, D)
  const Layout s{m.matrices * m.rows * (m.cols / 2), m.rows, m.cols / 2, call.node.attrs.text("style") == "interleaved",
                 call.node.attrs.integer_or("inverse", 0) != 0};
  context.launch(rope_kernel, context.per_item(s.pairs), in_data<float>(call, 0), in_data<float>(call, 1),
                 in_data<float>(call, 2), out_data<float>(call), s);
}

}  // namespace fp4sim::gpu::ops
