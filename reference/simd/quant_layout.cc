#include "reference/simd/quant_layout.h"

#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd {

RunLayout::RunLayout(const ValueType& packed) : bits_(packed.spec.element.bits) {
  const MatrixView m = matrix_view(packed.shape);
  const Granularity g = packed.spec.granularity;
  rows_ = m.matrices * m.rows;
  cols_ = m.cols;
  if (rows_ == 0 || cols_ == 0) rows_ = cols_ = 0;
  const bool per_row = g == Granularity::row || g == Granularity::col;  // of the stored rows: TileLayout has the others
  block_ = g == Granularity::block ? packed.spec.block_size : per_row ? std::max<int64_t>(m.cols, 1) : kOneBlock;
  const bool one_block = block_ == kOneBlock;
  row_bytes_ = code_row_bytes(packed);
  row_scales_ = one_block || cols_ == 0 ? 0 : (cols_ + block_ - 1) / block_;
  const bool joins = (cols_ * bits_) % 8 == 0 && (one_block || cols_ == 0 || cols_ % block_ == 0);
  if (joins) {
    cols_ *= rows_;
    row_bytes_ *= rows_;
    row_scales_ *= rows_;
    rows_ = cols_ > 0 ? 1 : 0;
  }
  // Whole blocks, and whole bytes of any width: chunks of a joined row of blocks shorter than kWork are kWork or more.
  chunk_ = one_block ? kWork : (kWork + block_ - 1) / std::max<int64_t>(block_, 1) * block_;
  if (!joins) chunk_ = std::max<int64_t>(cols_, 1);
  chunks_ = cols_ == 0 ? 0 : (cols_ + chunk_ - 1) / chunk_;
  piece_ = one_block ? kPiece : (kPiece + block_ - 1) / std::max<int64_t>(block_, 1) * block_;
  if (piece_ * bits_ % 8 != 0) piece_ = chunk_;
}

Run RunLayout::run(int64_t i) const {
  const int64_t row = i / chunks_, at = i % chunks_ * chunk_;
  const int64_t scales = block_ == kOneBlock ? 0 : row * row_scales_ + at / block_;
  return {row * cols_ + at, std::min(chunk_, cols_ - at), scales, row * row_bytes_ + at * bits_ / 8};
}

bool TileLayout::fits(const ValueType& packed) {
  const bool first = packed.axis == Axis::first;
  switch (packed.spec.granularity) {
    case Granularity::tile2d: return true;
    case Granularity::block:
    case Granularity::row: return first;
    case Granularity::col: return !first;
    default: return false;
  }
}

TileLayout::TileLayout(const ValueType& packed) : bits_(packed.spec.element.bits) {
  const MatrixView m = matrix_view(packed.shape);
  matrices_ = m.matrices;
  rows_ = m.rows;
  cols_ = m.cols;
  const int64_t block = packed.spec.block_size;  // 0: as high as the matrix
  block_rows_ = std::max<int64_t>(1, block > 0 ? block : rows_);
  block_cols_ = packed.spec.granularity == Granularity::tile2d ? block : 1;
  slab_rows_ = block > 0 ? block_rows_ : std::min(block_rows_, kRows);
  slabs_ = (rows_ + slab_rows_ - 1) / slab_rows_;
  tiles_ = (cols_ + kColumns - 1) / kColumns;
  row_bytes_ = fp4sim::code_row_bytes(packed);
}

Tile TileLayout::at(int64_t matrix, int64_t row, int64_t height, int64_t column) const {
  const int64_t row_of_all = matrix * rows_ + row, scales_a_row = (cols_ + block_cols_ - 1) / block_cols_;
  return {row_of_all * cols_ + column, std::min(height, rows_ - row), std::min(kColumns, cols_ - column),
          (matrix * blocks_a_column() + row / block_rows_) * scales_a_row + column / block_cols_,
          row_of_all * row_bytes_ + column * bits_ / 8};
}

Tile TileLayout::tile(int64_t i) const {
  return at(i / tiles_ / slabs_, i / tiles_ % slabs_ * slab_rows_, slab_rows_, i % tiles_ * kColumns);
}

Tile TileLayout::whole_tile(int64_t i) const {
  const int64_t blocks = blocks_a_column();
  return at(i / tiles_ / blocks, i / tiles_ % blocks * block_rows_, block_rows_, i % tiles_ * kColumns);
}

}  // namespace fp4sim::simd
