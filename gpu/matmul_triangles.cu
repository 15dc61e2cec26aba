#include "gpu/matmul_triangles.h"

#include <type_traits>

#include "gpu/panel_triangles.cuh"

namespace fp4sim::gpu {
namespace {

// A warp takes 16 or 32 rows, all columns of the tile: what it can leave out is close to a triangle. Small tiles leave
// out more and have more blocks to wait for each other (measured on an H200: q·kᵀ 77 µs against 87, pᵀ·dO 66 against
// 71), but not where a long operand must be transposed on its way (p·v 83 against 77).
using SmallTile = PanelShape<4, 8, 5, 4, 4>;
using LargeTile = PanelShape<8, 8, 3, 4, 4>;
static_assert(SmallTile::kTileM == 64 && LargeTile::kTileM == 128 && LargeTile::kTileN == 64);

template <bool a_contiguous, bool b_contiguous>
void launch_triangles(const Operand& a, const Operand& b, const KnownTriangles& known, const Epilogue& epilogue,
                      float* y, Context& context) {
  const auto launch = [&]<class Shape, bool zeros>(std::type_identity<Shape>, std::bool_constant<zeros>) {
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
    context.launch(triangles_kernel<Shape, a_contiguous, b_contiguous, zeros>,
                   Context::per_block(grid.tiles(), kPanelThreads), a, b, grid, epilogue, known);
  };
  if (!known.a_lower && !known.a_upper) return launch(std::type_identity<SmallTile>(), std::false_type());
  launch(std::type_identity<std::conditional_t<a_contiguous, LargeTile, SmallTile>>(), std::true_type());
}

}  // namespace

void matmul_triangles(const Operand& a, const Operand& b, const KnownTriangles& known, const Epilogue& epilogue,
                      float* y, Context& context) {
  const bool a_contiguous = a.k_stride == 1, b_contiguous = b.k_stride == 1;
  const auto launch = a_contiguous ? (b_contiguous ? launch_triangles<true, true> : launch_triangles<true, false>)
                                   : (b_contiguous ? launch_triangles<false, true> : launch_triangles<false, false>);
  launch(a, b, known, epilogue, y, context);
}

}  // namespace fp4sim::gpu
