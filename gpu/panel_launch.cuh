// The kernels of the fp32 rule by tile and layout, for one type of operand.
#pragma once

#include <tuple>
#include <utility>

#include "gpu/panel_choice.h"
#include "gpu/panel_tile.cuh"

namespace fp4sim::gpu {

using PanelShapes = std::tuple<PanelShape<8, 16, 2>, PanelShape<8, 8, 3>, PanelShape<6, 12, 3>, PanelShape<4, 8, 5>>;
static_assert(std::tuple_size_v<PanelShapes> == kPanelShapes);

template <class T>
using PanelKernel = void (*)(RowsOf<T>, RowsOf<T>, TileGrid, Epilogue);

template <class T, class Shape>
PanelKernel<T> panels_kernel_for(bool a_contiguous, bool b_contiguous) {
  if (a_contiguous) return b_contiguous ? panels_kernel<T, Shape, true, true> : panels_kernel<T, Shape, true, false>;
  return b_contiguous ? panels_kernel<T, Shape, false, true> : panels_kernel<T, Shape, false, false>;
}

/// Writes y (matrices, a.rows, b.rows) = a·bᵀ, k > 0, finished by the epilogue.
template <class T>
void launch_panels(const RowsOf<T>& a, const RowsOf<T>& b, const Epilogue& epilogue, float* y, Context& context) {
  const PanelChoice choice = choose_panels(a.matrices, a.rows, b.rows, a.k, y, context);
  const bool a_contiguous = a.k_stride == 1, b_contiguous = b.k_stride == 1;
  const auto kernel = [&]<size_t... i>(std::index_sequence<i...>) {
    const PanelKernel<T> kernels[] = {
        panels_kernel_for<T, std::tuple_element_t<i, PanelShapes>>(a_contiguous, b_contiguous)...};
    return kernels[choice.shape];
  }
  (std::make_index_sequence<kPanelShapes>());
  context.launch(kernel, Context::per_block(choice.grid.tiles(), kPanelThreads), a, b, choice.grid, epilogue);
  sum_panels(choice.grid, epilogue, context);
}

}  // namespace fp4sim::gpu
