// How a packed tensor is cut into pieces of work. A run is consecutive elements along the last axis with their blocks
// (axis=last, tensor scales, unscaled levels); a tile is one row of blocks of axis=first over some columns.
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
  /// Runs that one thread should take at least.
  int64_t grain() const { return std::max<int64_t>(1, kWork / std::max<int64_t>(1, std::min(chunk_, cols_))); }

 private:
  static constexpr int64_t kWork = 8192;  // elements
  int64_t rows_, cols_, chunk_, chunks_, block_, row_bytes_, row_scales_;
  int32_t bits_;
};

struct Tile {
  int64_t begin;  // first element; rows are `stride` elements apart
  int64_t rows, cols;
  int64_t scales;  // index of the first column's scale
  int64_t codes;   // byte offset of the first code; rows are `code_row_bytes` apart
};

/// Tiles of axis=first with one scale per column and block (b…, row). The blocks of `row` are cut into several tiles,
/// which share their scales.
class TileLayout {
 public:
  explicit TileLayout(const ValueType& packed);
  static bool fits(const ValueType& packed);
  int64_t count() const { return matrices_ * slabs_ * tiles_; }
  Tile tile(int64_t i) const;
  int64_t stride() const { return cols_; }
  int64_t code_row_bytes() const { return row_bytes_; }
  bool shares_scales() const { return block_rows_ > slab_rows_; }
  static constexpr int64_t kColumns = 256;  // at most; a multiple of 4, so that tiles begin at a byte
  int64_t grain() const { return std::max<int64_t>(1, kRows / slab_rows_); }

 private:
  static constexpr int64_t kRows = 32;  // of a tile of `row` granularity
  int64_t matrices_, rows_, cols_, block_rows_, slab_rows_, slabs_, tiles_, row_bytes_;
  int32_t bits_;
};

}  // namespace fp4sim::simd
