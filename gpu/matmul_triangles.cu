#include "gpu/matmul_triangles.h"

#include "gpu/panel_triangles.cuh"

namespace fp4sim::gpu {
namespace {

// A warp takes 32 rows, all columns of the tile: what it can leave out is close to a triangle.
using Shape = PanelShape<8, 8, 3, 4, 4>;
static_assert(Shape::kTileM == 128 && Shape::kTileN == 64);

template <bool zeros>
auto kernel_for(const Operand& a, const Operand& b) {
  if (a.k_stride == 1)
    return b.k_stride == 1 ? triangles_kernel<Shape, true, true, zeros> : triangles_kernel<Shape, true, false, zeros>;
  return b.k_stride == 1 ? triangles_kernel<Shape, false, true, zeros> : triangles_kernel<Shape, false, false, zeros>;
}

}  // namespace

void matmul_triangles(const Operand& a, const Operand& b, const KnownTriangles& known, const Epilogue& epilogue,
                      float* y, Context& context) {
  const TileGrid grid{a.matrices,
                      a.rows,
                      b.rows,
                      a.k,
                      ceil_div(a.rows, Shape::kTileM),
                      ceil_div(b.rows, Shape::kTileN),
                      ceil_div(a.k, kPanel),
                      false,
                      y,
                      nullptr};
  const auto kernel = known.a_lower || known.a_upper ? kernel_for<true>(a, b) : kernel_for<false>(a, b);
  context.launch(kernel, Context::per_block(grid.tiles(), kPanelThreads), a, b, grid, epilogue, known);
}

}  // namespace fp4sim::gpu
