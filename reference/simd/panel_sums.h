// Column sums by panels (numerics.md §7): every panel of 1024 rows has its own accumulators, added in ascending order.
#pragma once

#include <algorithm>
#include <vector>

#include "reference/contract/reduction_order.h"
#include "reference/simd/kernels_elementwise.h"
#include "reference/simd/ops_support.h"

namespace fp4sim::simd {

/// The accumulators of one result (cols): panel 0 works in the result itself, the others in scratch memory.
class PanelSums {
 public:
  PanelSums(int64_t rows, int64_t cols, float* result)
      : panels_(std::max<int64_t>(1, (rows + kPanel - 1) / kPanel)),
        cols_(cols),
        result_(result),
        others_(static_cast<size_t>((panels_ - 1) * cols)) {
    std::fill(result, result + cols, 0.0f);
  }

  int64_t panels() const { return panels_; }
  float* panel(int64_t p) { return p == 0 ? result_ : others_.data() + (p - 1) * cols_; }

  /// Adds panels 1, 2 … to panel 0; call once when every panel is complete.
  void finish(const Context& context) {
    const auto add = pick_elementwise_kernels(context.level).add;
    parallel_for(context, cols_, ops::kGrain / panels_ + 1, [this, add](int64_t begin, int64_t end) {
      for (int64_t p = 1; p < panels_; ++p) add(result_ + begin, panel(p) + begin, result_ + begin, end - begin);
    });
  }

 private:
  int64_t panels_, cols_;
  float* result_;
  std::vector<float> others_;
};

/// Calls body(panel, first row, rows, first column, columns) so that every panel's part of every column is visited
/// once; parts go to threads.
template <class Body>
void for_panel_blocks(const Context& context, int64_t rows, int64_t cols, Body body) {
  constexpr int64_t kColumns = 256;
  const int64_t panels = (rows + kPanel - 1) / kPanel, blocks = (cols + kColumns - 1) / kColumns;
  parallel_for(context, panels * blocks, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = i / blocks, c = i % blocks * kColumns;
      body(p, p * kPanel, std::min(kPanel, rows - p * kPanel), c, std::min(kColumns, cols - c));
    }
  });
}

}  // namespace fp4sim::simd
