// Which tile a product of the fp32 rule is cut into, and whether its panels are split over blocks of threads.
#pragma once

#include "gpu/product_launch.h"

namespace fp4sim::gpu {

/// Row `shape` of the table of tiles (panel_launch.cuh has their kernels), and the grid of such tiles.
struct PanelChoice {
  int shape;
  TileGrid grid;
};
constexpr int kPanelShapes = 4;

/// The tile and grid that keep the device's multiprocessors busiest; takes scratch for split panels.
PanelChoice choose_panels(int64_t matrices, int64_t m, int64_t n, int64_t k, float* y, Context& context);

}  // namespace fp4sim::gpu
