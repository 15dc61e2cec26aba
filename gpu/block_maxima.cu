// Maxima of magnitudes are integer maxima of bits, so that any order of them, atomics included, gives the same word.
#include "gpu/block_maxima.h"
#include "gpu/fused.cuh"
#include "gpu/map.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int64_t kPieceCols = 1024;  // elements of a row that one warp takes
constexpr int64_t kPieceRows = 64;    // elements of a column that one thread takes

/// Adds a piece's maximum to its block; a block of a single piece has no other writer.
__device__ void add_maximum(uint32_t* maximum, uint32_t piece, bool alone) {
  if (alone) {
    *maximum = piece;
  } else if (piece != 0) {
    atomicMax(maximum, piece);
  }
}

/// Blocks that run along a row: one warp for each piece of at most kPieceCols elements of one block's row.
__global__ void row_pieces(const float* x, Layout l, int64_t pieces_per_block, uint32_t* maxima) {
  const int64_t pieces_per_row = l.grid_cols * pieces_per_block;
  const int64_t piece = thread_number() / kWarp;
  if (piece >= l.rows * pieces_per_row) return;
  const int64_t row = quotient(piece, pieces_per_row), in_row = piece - row * pieces_per_row;
  const int64_t block_col = quotient(in_row, pieces_per_block), part = in_row - block_col * pieces_per_block;
  const int64_t first = block_col * l.col_step + part * kPieceCols;
  const int64_t last = least(least(first + kPieceCols, (block_col + 1) * l.col_step), l.cols);
  uint32_t maximum = 0;
  for (int64_t col = first + threadIdx.x % kWarp; col < last; col += kWarp)
    maximum = max(maximum, magnitude_bits(x[row * l.cols + col]));
  maximum = warp_max(maximum);
  if (threadIdx.x % kWarp != 0 || first >= last) return;
  add_maximum(maxima + l.block_of(row, first), maximum, l.row_step == 1 && pieces_per_block == 1);
}

/// Blocks one element wide: one thread for each piece of at most kPieceRows elements of `width` neighbouring columns.
template <int width>
__global__ void column_pieces(const float* x, Layout l, int64_t matrices, int64_t pieces_per_block, uint32_t* maxima) {
  const int64_t threads_per_row = l.cols / width;
  const int64_t item = thread_number(), pieces = matrices * l.grid_rows * pieces_per_block;
  const int64_t piece = quotient(item, threads_per_row), col = (item - piece * threads_per_row) * width;
  if (piece >= pieces) return;
  const int64_t pieces_per_matrix = l.grid_rows * pieces_per_block, matrix = quotient(piece, pieces_per_matrix);
  const int64_t in_matrix = piece - matrix * pieces_per_matrix, block_row = quotient(in_matrix, pieces_per_block);
  const int64_t first = block_row * l.row_step + (in_matrix - block_row * pieces_per_block) * kPieceRows;
  const int64_t last = least(least(first + kPieceRows, (block_row + 1) * l.row_step), l.matrix_rows);
  if (first >= last) return;
  const float* from = x + (matrix * l.matrix_rows + first) * l.cols + col;
  const int rows = static_cast<int>(last - first);
  uint32_t maximum[width] = {};
#pragma unroll 8
  for (int r = 0; r < rows; ++r) {
    float v[width];
    if constexpr (width == kVector) {
      const float4 f = *reinterpret_cast<const float4*>(from + r * l.cols);
      v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
    } else {
      v[0] = from[r * l.cols];
    }
#pragma unroll
    for (int k = 0; k < width; ++k) maximum[k] = max(maximum[k], magnitude_bits(v[k]));
  }
  uint32_t* to =
      maxima + l.block_of(matrix * l.matrix_rows + first, col);  // neighbouring columns' blocks are neighbours
  for (int k = 0; k < width; ++k) add_maximum(to + k, maximum[k], pieces_per_block == 1);
}

__global__ void finite_words(const uint32_t* words, int64_t count, uint32_t* maximum) {
  uint32_t most = 0;
  for (int64_t i = thread_number(); i < count; i += int64_t{gridDim.x} * blockDim.x)
    if (words[i] < kF32Inf) most = max(most, words[i]);
  most = warp_max(most);
  if (threadIdx.x % kWarp == 0 && most != 0) atomicMax(maximum, most);
}

__global__ void scaled_elements(const float* x, PackedView q, uint32_t* maximum) {
  uint32_t most = 0;
  for (int64_t i = thread_number(); i < q.layout.elements(); i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t magnitude = magnitude_bits(x[i]);
    if (magnitude >= kF32Inf) continue;  // in a nonfinite block
    if (magnitude <= most) continue;
    const int64_t row = quotient(i, q.layout.cols);
    if (magnitude_bits(q.scale_at(q.layout.block_of(row, i - row * q.layout.cols))) <= kF32Inf) most = magnitude;
  }
  most = warp_max(most);
  if (threadIdx.x % kWarp == 0 && most != 0) atomicMax(maximum, most);
}

constexpr int kPartThreads = 1024;

/// The largest magnitude of elements `first`, first + step … below `last`, all counted in fours; NaN if one is NaN.
__device__ float strided_magnitude(const float4* x, int64_t first, int64_t step, int64_t last) {
  constexpr int kAtOnce = 4;
  float most = 0;
  for (; first < last; first += step * kAtOnce) {
    float4 e[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) e[i] = first + i * step < last ? x[first + i * step] : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      most = larger_magnitude(larger_magnitude(most, e[i].x), e[i].y);
      most = larger_magnitude(larger_magnitude(most, e[i].z), e[i].w);
    }
  }
  return most;
}

__global__ void __launch_bounds__(kPartThreads) whole_parts(const float4* x, int64_t fours, uint32_t* parts) {
  __shared__ uint32_t warps[kPartThreads / kWarp];
  const float most = strided_magnitude(x, thread_number(), int64_t{gridDim.x} * kPartThreads, fours);
  const uint32_t maximum = block_maximum(magnitude_bits(most), warps);
  if (threadIdx.x == 0) parts[blockIdx.x] = maximum;
}

/// A unit is a block along a row, or a band of blocks that run down the columns of a matrix: neighbouring units are
/// neighbours in memory.
FP4SIM_HD int64_t units_of(const Layout& l) {
  return l.col_step > 1 ? l.elements() / l.col_step : quotient(l.rows, l.matrix_rows) * l.grid_rows;
}

/// Index of a unit's first element.
__device__ int64_t begin_of_unit(int64_t unit, const Layout& l) {
  if (l.col_step > 1) return unit * l.col_step;
  const int64_t matrix = quotient(unit, l.grid_rows);
  return (matrix * l.matrix_rows + (unit - matrix * l.grid_rows) * l.row_step) * l.cols;
}

/// The largest magnitude of the finite blocks of some units, a share of it in each thread.
__device__ uint32_t finite_share(const float* x, const Layout& l, int64_t begin, int64_t end) {
  const bool along = l.col_step > 1;
  const int64_t blocks = along ? 1 : l.cols;  // of a unit
  const int64_t stride = along ? 1 : l.cols;
  uint32_t most = 0;
  for (int64_t i = threadIdx.x; i < (end - begin) * blocks; i += blockDim.x) {
    const int64_t unit = begin + quotient(i, blocks), first = begin_of_unit(unit, l);
    const int64_t count = along ? l.col_step : quotient(begin_of_unit(unit + 1, l) - first, l.cols);
    const float* from = x + first + (i - (unit - begin) * blocks);
    uint32_t amax = 0;
    for (int64_t k = 0; k < count; ++k) amax = max(amax, magnitude_bits(from[k * stride]));
    if (amax < kF32Inf) most = max(most, amax);
  }
  return most;
}

/// Each block of threads takes pieces of `share` units, a grid apart; one that meets a NaN or an Inf looks at its
/// pieces again, block by block.
__global__ void __launch_bounds__(kPartThreads) finite_parts(const float* x, Layout l, int64_t share, uint32_t* parts) {
  __shared__ uint32_t warps[kPartThreads / kWarp];
  const int64_t units = units_of(l), step = gridDim.x * share;
  float most = 0;
  for (int64_t begin = blockIdx.x * share; begin < units; begin += step) {
    const int64_t first = begin_of_unit(begin, l) / kVector;
    const int64_t last = begin_of_unit(least(begin + share, units), l) / kVector;
    const auto* fours = reinterpret_cast<const float4*>(x);
    most = larger_magnitude(most, strided_magnitude(fours, first + threadIdx.x, kPartThreads, last));
  }
  uint32_t maximum = block_maximum(magnitude_bits(most), warps);
  if (maximum >= kF32Inf) {
    uint32_t finite = 0;
    for (int64_t begin = blockIdx.x * share; begin < units; begin += step)
      finite = max(finite, finite_share(x, l, begin, least(begin + share, units)));
    __syncthreads();  // everybody has read the words of the warps
    maximum = block_maximum(finite, warps);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = maximum;
}

constexpr int kColumnThreads = 256, kColumnRows = 16;  // rows of one warp
constexpr int kColumnTileCols = kWarp * kVector, kColumnTileRows = kColumnThreads / kWarp * kColumnRows;

/// Whole columns of a matrix: a block of threads takes kColumnTileRows rows of kColumnTileCols columns.
__global__ void __launch_bounds__(kColumnThreads) whole_columns(const float* x, Layout l, uint32_t* maxima) {
  alignas(16) __shared__ float warps[kColumnThreads / kWarp][kColumnTileCols];
  const int64_t across = (l.cols + kColumnTileCols - 1) / kColumnTileCols;
  const int64_t down = (l.matrix_rows + kColumnTileRows - 1) / kColumnTileRows;
  const int64_t outer = quotient(blockIdx.x, across), matrix = quotient(outer, down);
  const int64_t first_col = (blockIdx.x - outer * across) * kColumnTileCols;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t row = (outer - matrix * down) * kColumnTileRows + warp * kColumnRows, col = first_col + lane * kVector;
  const int rows = col < l.cols ? static_cast<int>(least(l.matrix_rows - row, kColumnRows)) : 0;
  const float* from = x + (matrix * l.matrix_rows + row) * l.cols + col;
  float4 e[kColumnRows];
#pragma unroll
  for (int r = 0; r < kColumnRows; ++r)
    e[r] = r < rows ? *reinterpret_cast<const float4*>(from + r * l.cols) : make_float4(0, 0, 0, 0);
  float most[kVector] = {};
#pragma unroll
  for (const float4& f : e) {
    most[0] = larger_magnitude(most[0], f.x);
    most[1] = larger_magnitude(most[1], f.y);
    most[2] = larger_magnitude(most[2], f.z);
    most[3] = larger_magnitude(most[3], f.w);
  }
  *reinterpret_cast<float4*>(&warps[warp][lane * kVector]) = make_float4(most[0], most[1], most[2], most[3]);
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  if (mine >= kColumnTileCols || first_col + mine >= l.cols) return;
  float of_column = 0;
#pragma unroll
  for (int w = 0; w < kColumnThreads / kWarp; ++w) of_column = larger_magnitude(of_column, warps[w][mine]);
  add_maximum(maxima + matrix * l.cols + first_col + mine, magnitude_bits(of_column), down == 1);
}

/// A grid of at most eight blocks of threads on each multiprocessor, for loops over `items`.
Grid looping(int64_t items, const Context& context) {
  const int64_t blocks = std::min<int64_t>(ceil_div(items, context.threads()), 8 * context.multiprocessors());
  return Context::per_block(blocks, context.threads());
}

}  // namespace

void block_maxima(const float* x, const Layout& l, uint32_t* maxima, Context& context) {
  context.zero(maxima, l.blocks * 4);
  if (l.elements() == 0) return;
  if (l.col_step == 1 && l.grid_rows == 1 && l.cols % kVector == 0) {
    const int64_t tiles = ceil_div(l.matrix_rows, kColumnTileRows) * ceil_div(l.cols, kColumnTileCols);
    context.launch(whole_columns, Context::per_block(l.rows / l.matrix_rows * tiles, kColumnThreads), x, l, maxima);
  } else if (l.col_step > 1) {
    const int64_t pieces = ceil_div(std::min(l.col_step, l.cols), kPieceCols);
    context.launch(row_pieces, context.per_warp(l.rows * l.grid_cols * pieces), x, l, pieces, maxima);
  } else {
    const int64_t pieces = ceil_div(std::min(l.row_step, l.matrix_rows), kPieceRows), matrices = l.rows / l.matrix_rows;
    const bool vectors = l.cols % kVector == 0;
    const int64_t threads = matrices * l.grid_rows * pieces * (vectors ? l.cols / kVector : l.cols);
    context.launch(vectors ? column_pieces<kVector> : column_pieces<1>, context.per_item(threads), x, l, matrices,
                   pieces, maxima);
  }
}

void finite_maximum(const uint32_t* words, int64_t count, uint32_t* maximum, Context& context) {
  context.zero(maximum, 4);
  context.launch(finite_words, looping(count, context), words, count, maximum);
}

void scaled_amax(const float* x, const PackedView& q, uint32_t* maximum, Context& context) {
  context.zero(maximum, 4);
  context.launch(scaled_elements, looping(q.layout.elements(), context), x, q, maximum);
}

AmaxParts whole_amax(const float* x, int64_t elements, Context& context) {
  const int64_t fours = elements / kVector, parts = std::min<int64_t>(ceil_div(fours, kPartThreads), AmaxParts::kMost);
  auto* words = context.scratch<uint32_t>(AmaxParts::kMost);
  context.launch(whole_parts, Context::per_block(parts, kPartThreads), reinterpret_cast<const float4*>(x), fours,
                 words);
  return {words, static_cast<int>(parts)};
}

AmaxParts finite_amax(const float* x, const Layout& l, Context& context) {
  constexpr int64_t kPiece = int64_t{16} * kPartThreads;  // elements
  const int64_t units = units_of(l), share = std::max<int64_t>(1, kPiece / ceil_div(l.elements(), units));
  const int64_t parts = std::min<int64_t>(ceil_div(units, share), AmaxParts::kMost);
  auto* words = context.scratch<uint32_t>(AmaxParts::kMost);
  context.launch(finite_parts, Context::per_block(parts, kPartThreads), x, l, share, words);
  return {words, static_cast<int>(parts)};
}

}  // namespace fp4sim::gpu
