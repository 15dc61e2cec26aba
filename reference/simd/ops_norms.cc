// rmsnorm, layernorm and their gradients; rope.
#include <vector>

#include "reference/simd/kernels_columns.h"
#include "reference/simd/kernels_norms.h"
#include "reference/simd/panel_sums.h"

namespace fp4sim::simd::ops {
namespace {

float eps_of(const NodeCall& call) { return static_cast<float>(call.node.attrs.number("eps")); }

/// Runs rows(first, count) before columns(panel, first row, rows, first column, columns) of the same rows. With a panel
/// for every thread both happen a few rows at a time, while the rows are in cache.
template <class RowPass, class ColumnPass>
void rows_then_columns(const Context& context, Rows shape, RowPass rows, ColumnPass columns) {
  constexpr int64_t kTogether = 16;
  const int64_t panels = (shape.rows + kPanel - 1) / kPanel;
  if (panels < context.threads) {
    parallel_for(context, shape.rows, row_grain(shape.cols), [=](int64_t b, int64_t e) { rows(b, e - b); });
    for_panel_blocks(context, shape.rows, shape.cols, columns);
    return;
  }
  parallel_for(context, panels, 1, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin * kPanel; row < std::min(end * kPanel, shape.rows); row += kTogether) {
      const int64_t count = std::min(kTogether, shape.rows - row);
      rows(row, count);
      columns(row / kPanel, row, count, 0, shape.cols);
    }
  });
}

}  // namespace

void rmsnorm(const NodeCall& call, const Context& context) {
  const auto kernel = pick_norm_kernels(context.level).rmsnorm;
  const auto [rows, cols] = rows_in(call, 0);
  const float *x = f32_in(call, 0), *g = f32_in(call, 1), eps = eps_of(call);
  float* y = f32_out(call);
  parallel_for(context, rows, row_grain(cols), [=, n = cols](int64_t begin, int64_t end) {
    kernel(x + begin * n, g, y + begin * n, end - begin, n, eps);
  });
}

void layernorm(const NodeCall& call, const Context& context) {
  const auto kernel = pick_norm_kernels(context.level).layernorm;
  const auto [rows, cols] = rows_in(call, 0);
  const float *x = f32_in(call, 0), *g = f32_in(call, 1), *b = f32_in(call, 2), eps = eps_of(call);
  float* y = f32_out(call);
  parallel_for(context, rows, row_grain(cols), [=, n = cols](int64_t begin, int64_t end) {
    kernel(x + begin * n, g, b, y + begin * n, end - begin, n, eps);
  });
}

void rmsnorm_grad(const NodeCall& call, const Context& context) {
  const auto row_kernel = pick_norm_kernels(context.level).rmsnorm_grad;
  const auto column_kernel = pick_column_kernels(context.level).rms_products;
  const Rows shape = rows_in(call, 1);
  const int64_t n = shape.cols;
  const float *dy = f32_in(call, 0), *x = f32_in(call, 1), *g = f32_in(call, 2), eps = eps_of(call);
  float* dx = f32_out(call);
  std::vector<float> scratch(static_cast<size_t>(shape.rows));
  float* r = scratch.data();
  PanelSums dg(shape.rows, n, f32_out(call, 1));
  rows_then_columns(
      context, shape,
      [=](int64_t row, int64_t count) {
        row_kernel(dy + row * n, x + row * n, g, dx + row * n, r + row, count, n, eps);
      },
      [=, &dg](int64_t panel, int64_t row, int64_t count, int64_t col, int64_t width) {
        const int64_t first = row * n + col;
        column_kernel(dg.panel(panel) + col, dy + first, x + first, r + row, count, n, width);
      });
  dg.finish(context);
}

void layernorm_grad(const NodeCall& call, const Context& context) {
  const auto row_kernel = pick_norm_kernels(context.level).layernorm_grad;
  const ColumnKernels& column_kernels = pick_column_kernels(context.level);
  const Rows shape = rows_in(call, 1);
  const int64_t n = shape.cols;
  const float *dy = f32_in(call, 0), *x = f32_in(call, 1), *g = f32_in(call, 2), eps = eps_of(call);
  float* dx = f32_out(call);
  std::vector<float> scratch(static_cast<size_t>(2 * shape.rows));
  float *mean = scratch.data(), *r = mean + shape.rows;
  PanelSums dg(shape.rows, n, f32_out(call, 1)), db(shape.rows, n, f32_out(call, 2));
  rows_then_columns(
      context, shape,
      [=](int64_t row, int64_t count) {
        row_kernel(dy + row * n, x + row * n, g, dx + row * n, mean + row, r + row, count, n, eps);
      },
      [=, &dg, &db, &column_kernels](int64_t panel, int64_t row, int64_t count, int64_t col, int64_t width) {
        const int64_t first = row * n + col;
        column_kernels.layer_products(dg.panel(panel) + col, dy + first, x + first, mean + row, r + row, count, n,
                                      width);
        column_kernels.sum(db.panel(panel) + col, dy + first, count, n, width);
      });
  dg.finish(context);
  db.finish(context);
}

void rope(const NodeCall& call, const Context& context) {
  const RopeKernels& kernels = pick_rope_kernels(context.level);
  const auto kernel = call.node.attrs.text("style") == "interleaved" ? kernels.interleaved : kernels.split;
  const float sign = call.node.attrs.integer_or("inverse", 0) != 0 ? -1.0f : 1.0f;
  const MatrixView view = matrix_view(call.in[0].type.shape);
  const float *x = f32_in(call, 0), *cos = f32_in(call, 1), *sin = f32_in(call, 2);
  float* y = f32_out(call);
  const int64_t n = view.cols, half = n / 2;
  parallel_for(context, view.matrices * view.rows, row_grain(n), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = row % view.rows;
      kernel(x + row * n, cos + position * half, sin + position * half, sign, y + row * n, half);
    }
  });
}

}  // namespace fp4sim::simd::ops
