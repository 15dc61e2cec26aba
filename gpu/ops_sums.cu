// mean, column_sum and norm.
#include "gpu/arithmetic.cuh"
#include "gpu/column_sum.cuh"
#include "gpu/flat_sums.h"
#include "gpu/ops.h"

namespace fp4sim::gpu::ops {
namespace {

__global__ void divide_kernel(const float* sum, float* y, float count) { *y = *sum / count; }

/// One thread: the square root of the sums, added in ascending order.
__global__ void __launch_bounds__(1, 1) norm_kernel(const float* sums, int64_t count, float* y) {
  constexpr int kAhead = 32;  // loaded at once
  float acc = 0.0f;
  for (int64_t first = 0; first < count; first += kAhead) {
    float v[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) v[i] = first + i < count ? sums[first + i] : 0.0f;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) acc = acc + v[i];  // never −0: +0 more is the same
  }
  *y = sqrt32(acc);
}

}  // namespace

void mean(const NodeCall& call, Context& context) {
  const int64_t n = count_in(call, 0);
  float* sum = context.scratch<float>(1);
  flat_sums(context, {{in_data<float>(call, 0), n}}, Term::element, sum);
  context.launch(divide_kernel, Context::per_block(1, 1), sum, out_data<float>(call), static_cast<float>(n));
}

void column_sum(const NodeCall& call, Context& context) {
  const int64_t columns = call.node.attrs.integer("columns");
  sum_columns<ColumnElements>(context, in_data<float>(call, 0), nullptr, nullptr, count_in(call, 0) / columns, columns,
                              {{out_data<float>(call)}});
}

void norm(const NodeCall& call, Context& context) {
  std::vector<FlatRow> rows;
  for (size_t i = 0; i < call.in.size(); ++i) rows.push_back({in_data<float>(call, i), count_in(call, i)});
  const auto count = static_cast<int64_t>(rows.size());
  float* sums = context.scratch<float>(count);
  flat_sums(context, rows, Term::square, sums);
  context.launch(norm_kernel, Context::per_block(1, 1), sums, count, out_data<float>(call));
}

}  // namespace fp4sim::gpu::ops
