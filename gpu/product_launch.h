// How a product is cut into tiles, and the sum of split panels.
#pragma once

#include "gpu/certificate.cuh"
#include "gpu/launch.h"
#include "gpu/product.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// The grid of tile_m × tile_n tiles of y (matrices, m, n) over k > 0. Panels are split over blocks of threads, with
/// scratch for their results, where whole tiles would leave most of the device without work.
TileGrid tile_grid(int64_t matrices, int64_t m, int64_t n, int64_t k, int tile_m, int tile_n, float* y,
                   Context& context);

/// Adds the results of split panels in ascending order and finishes the product; nothing for a grid without a split.
void sum_panels(const TileGrid& grid, const Epilogue& epilogue, Context& context);

/// Cuts rows into bands of `blocks` times kNormRows, or of twice as many and so on until there are at most `most`.
void choose_bands(RowNorms& n, int64_t blocks, int64_t most);

/// A product of which some tiles are certified (certificate.cuh): these are sums of parts of `certified`, the others of
/// the panels of `panels`. A grid without a split has finished its tiles.
struct CertifiedSums {
  TileGrid panels, certified;
  const uint8_t* map;   // [matrix][band of rows][band of columns]: 1 if certified
  RowNorms rows, cols;  // for the bands
  UnfitFlags unfit;     // if one is set, the sums of `panels` have their scales already
};

/// Adds the results of split panels and parts and finishes the product.
void sum_certified(const CertifiedSums& sums, const Epilogue& epilogue, Context& context);

}  // namespace fp4sim::gpu
