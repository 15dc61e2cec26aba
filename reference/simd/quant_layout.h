// How a packed tensor is cut into pieces of work. A run is consecutive elements along the last axis with their blocks
// (axis=last, tensor scales, unscaled levels); a tile is one row of blocks that span rows, over some columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/contract/value_type.h"
#include "reference/simd/parallel.h"

namespace fp4sim::simd {

struct Run {
  int64_t begin, n;  // elements
  int64_t scales;    // index of the first block's scale
  int64_t codes;     // byte offset of the first code
};

/// Runs of whole blocks. Rows that end at a block and at a byte are joined to one.
class RunLayout {
 public:
  explicit RunLayout(const ValueType& packed);
  int64_t count() const { return rows_ * chunks_; }
  Run run(int64_t i) const;
  /// Elements a scale; kOneBlock without block scales (tensor, none).
  int64_t block() const { return block_; }
  int64_t blocks(const Run& r) const { return block_ > r.n ? 1 : (r.n + block_ - 1) / block_; }
  /// Most blocks of a run.
  int64_t most_blocks() const { return blocks(Run{0, std::min(chunk_, cols_), 0, 0}); }
  /// Elements of a piece of a run: whole blocks and bytes, few enough to stay in the first-level cache and to let
  /// reading the next piece overlap with work on this one. The whole run where its blocks cannot be told apart.
  int64_t piece() const { return piece_; }
  /// The piece of a run that begins at its element `at`, the first of a block and of a byte.
  Run piece_of(const Run& run, int64_t at) const {
    return {run.begin + at, std::min(piece_, run.n - at), run.scales + at / block_, run.codes + at * bits_ / 8};
  }
  /// Runs that one thread should take at least.
  int64_t grain() const { return std::max<int64_t>(1, kWork / std::max<int64_t>(1, std::min(chunk_, cols_))); }

 private:
  static constexpr int64_t kWork = 8192, kPiece = 512;  // elements
  int64_t rows_, cols_, chunk_, chunks_, piece_, block_, row_bytes_, row_scales_;
  int32_t bits_;
};

struct Tile {
  int64_t begin;  // first element; rows are `stride` elements apart
  int64_t rows, cols;
  int64_t scales;  // index of the first scale
  int64_t codes;   // byte offset of the first code; rows are `code_row_bytes` apart
};

/// Tiles of blocks that span rows: b… and row of axis=first, col of axis=last (one scale per column and block), and 2d…
/// (one per block_cols() columns). High blocks (row, col) are cut into several tiles, which share their scales.
class TileLayout {
 public:
  explicit TileLayout(const ValueType& packed);
  static bool fits(const ValueType& packed);
  int64_t count() const { return matrices_ * slabs_ * tiles_; }
  Tile tile(int64_t i) const;
  /// Tiles as high as their blocks: each has scales of its own.
  int64_t whole_count() const { return matrices_ * blocks_a_column() * tiles_; }
  Tile whole_tile(int64_t i) const;
  int64_t stride() const { return cols_; }
  int64_t code_row_bytes() const { return row_bytes_; }
  bool shares_scales() const { return block_rows_ > slab_rows_; }
  /// Scales of a tile, and how its elements find theirs (BlockFactors.block).
  int64_t scales(const Tile& t) const { return (t.cols + block_cols_ - 1) / block_cols_; }
  int64_t factor_block() const { return block_cols_ == 1 ? 0 : block_cols_; }
  static constexpr int64_t kColumns =
      256;  // at most; a multiple of 8 and of every block, so that tiles begin at a byte
  int64_t grain() const { return std::max<int64_t>(1, kRows / slab_rows_); }

 private:
  static constexpr int64_t kRows = 32;  // of a tile of `row` granularity
  int64_t blocks_a_column() const { return (rows_ + block_rows_ - 1) / block_rows_; }
  Tile at(int64_t matrix, int64_t row, int64_t height, int64_t column) const;
  int64_t matrices_, rows_, cols_, block_rows_, block_cols_, slab_rows_, slabs_, tiles_, row_bytes_;
  int32_t bits_;
};

}  // namespace fp4sim::simd
