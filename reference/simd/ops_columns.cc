// Sums over rows: column_sum and embedding_grad.
#include <vector>

#include "reference/simd/kernels_columns.h"
#include "reference/simd/panel_sums.h"

namespace fp4sim::simd::ops {
namespace {

/// The positions of every id, ascending: those of id r are order[first[r]] … order[first[r + 1] − 1].
struct Positions {
  std::vector<int64_t> first;
  std::vector<int32_t> order;
};

Positions positions_by_id(const int32_t* ids, int64_t n, int64_t rows) {
  Positions p{std::vector<int64_t>(static_cast<size_t>(rows) + 1), std::vector<int32_t>(static_cast<size_t>(n))};
  for (int64_t t = 0; t < n; ++t) ++p.first[static_cast<size_t>(ids[t]) + 1];
  for (size_t r = 1; r < p.first.size(); ++r) p.first[r] += p.first[r - 1];
  std::vector<int64_t> next(p.first.begin(), p.first.end() - 1);
  for (int64_t t = 0; t < n; ++t)
    p.order[static_cast<size_t>(next[static_cast<size_t>(ids[t])]++)] = static_cast<int32_t>(t);
  return p;
}

inline constexpr int64_t kColumns = 128;  // columns of one piece of work, held on the stack

/// sum(columns) of dy over the positions [begin, end), panel by panel. Panels without a position would add +0.
void sum_positions(const ColumnKernels& columns, const ElementwiseKernels& elementwise, const float* dy, int64_t stride,
                   const int32_t* begin, const int32_t* end, float* sum, int64_t cols) {
  std::fill(sum, sum + cols, 0.0f);
  while (begin < end) {
    const int64_t panel = *begin / kPanel;
    const int32_t* stop = begin;
    while (stop < end && *stop / kPanel == panel) ++stop;
    float part[kColumns] = {};
    columns.gather_sum(part, dy, begin, stop - begin, stride, cols);
    elementwise.add(sum, part, sum, cols);
    begin = stop;
  }
}

}  // namespace

void column_sum(const NodeCall& call, const Context& context) {
  const auto kernel = pick_column_kernels(context.level).sum;
  const int64_t cols = call.node.attrs.integer("columns"), rows = count_in(call, 0) / cols;
  const float* x = f32_in(call, 0);
  PanelSums sums(rows, cols, f32_out(call));
  for_panel_blocks(context, rows, cols, [&](int64_t panel, int64_t row, int64_t count, int64_t col, int64_t width) {
    kernel(sums.panel(panel) + col, x + row * cols + col, count, cols, width);
  });
  sums.finish(context);
}

void embedding_grad(const NodeCall& call, const Context& context) {
  const ColumnKernels& columns = pick_column_kernels(context.level);
  const ElementwiseKernels& elementwise = pick_elementwise_kernels(context.level);
  const auto* ids = in_data<int32_t>(call.in[0]);
  const float* dy = f32_in(call, 1);
  float* table = f32_out(call);
  const int64_t positions = count_in(call, 0), width = call.in[1].type.shape[1];
  const int64_t rows = call.node.attrs.integer("rows"), blocks = (width + kColumns - 1) / kColumns;
  check_indices("embedding_grad", "id", ids, positions, rows);
  const Positions sorted = positions_by_id(ids, positions, rows);
  // Frequent ids would make ranges of table rows uneven: threads take blocks of columns first.
  parallel_for(context, blocks * rows, row_grain(kColumns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows, col = i / rows * kColumns;
      const int32_t* order = sorted.order.data();
      sum_positions(columns, elementwise, dy + col, width, order + sorted.first[static_cast<size_t>(row)],
                    order + sorted.first[static_cast<size_t>(row) + 1], table + row * width + col,
                    std::min(kColumns, width - col));
    }
  });
}

}  // namespace fp4sim::simd::ops
