#include "gpu/panel_choice.h"

namespace fp4sim::gpu {
namespace {

/// A tile of panel_launch.cuh, in its order: outputs, blocks that share a multiprocessor, and the rate of a busy
/// multiprocessor relative to the best (measured on an H200).
struct TileFacts {
  int m, n, blocks;
  double rate;
};
constexpr TileFacts kTiles[kPanelShapes] = {
    {128, 128, 2, 1.0}, {128, 64, 3, 0.97}, {96, 96, 3, 0.95}, {64, 64, 5, 0.85}};

/// The tiles that the busiest multiprocessor computes. Blocks of a first wave spread; later ones fill whichever
/// multiprocessor is done first, all of its places together.
int64_t most_tiles(int64_t tiles, int64_t multiprocessors, int64_t blocks) {
  const int64_t wave = multiprocessors * blocks, waves = tiles / wave, rest = tiles - waves * wave;
  return waves == 0 ? ceil_div(rest, multiprocessors) : waves * blocks + std::min(rest, blocks);
}

/// Time of a grid, in outputs · panels of a busy multiprocessor. One block alone hides no latency.
double cost_of(const TileGrid& g, const TileFacts& tile, int multiprocessors) {
  constexpr double kAlone = 1.5, kSplit = 1.05;
  const int64_t most = most_tiles(g.tiles(), multiprocessors, tile.blocks);
  const double outputs = static_cast<double>(most * tile.m * tile.n);
  return outputs / tile.rate * (most == 1 ? kAlone : 1.0) * (g.split ? kSplit : static_cast<double>(g.panels));
}

}  // namespace

PanelChoice choose_panels(int64_t matrices, int64_t m, int64_t n, int64_t k, float* y, Context& context) {
  PanelChoice best{};
  double least_cost = 0;
  for (int shape = 0; shape < kPanelShapes; ++shape) {
    const TileFacts& tile = kTiles[shape];
    TileGrid g{matrices, m, n, k, ceil_div(m, tile.m), ceil_div(n, tile.n), ceil_div(k, kPanel), false, y, nullptr};
    // Splitting takes memory for every panel of the product: only where that is a few tiles a multiprocessor.
    const bool may_split = g.panels > 1 && g.tiles() < 2 * context.multiprocessors();
    for (const bool split : {false, true}) {
      if (split && !may_split) continue;
      g.split = split;
      const double cost = cost_of(g, tile, context.multiprocessors());
      if (least_cost != 0 && cost >= least_cost) continue;
      least_cost = cost;
      best = {shape, g};
    }
  }
  if (best.grid.split) best.grid.partial = context.scratch<float>(best.grid.panels * matrices * m * n);
  return best;
}

}  // namespace fp4sim::gpu
