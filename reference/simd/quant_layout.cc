#include "reference/simd/quant_layout.h"

#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd {

RunLayout::RunLayout(const ValueType& packed) : bits_(packed.spec.element.bits) {
  const MatrixView m = matrix_view(packed.shape);
  const Granularity g = packed.spec.granularity;
  rows_ = m.matrices * m.rows;
  cols_ = m.cols;
  if (rows_ == 0 || cols_ == 0) rows_ = cols_ = 0;
  block_ = g == Granularity::block ? packed.spec.block_size
           : g == Granularity::row ? std::max<int64_t>(m.cols, 1)
                                   : kOneBlock;
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
}

Run RunLayout::run(int64_t i) const {
  const int64_t row = i / chunks_, at = i % chunks_ * chunk_;
  const int64_t scales = block_ == kOneBlock ? 0 : row * row_scales_ + at / block_;
  return {row * cols_ + at, std::min(chunk_, cols_ - at), scales, row * row_bytes_ + at * bits_ / 8};
}

bool TileLayout::fits(const ValueType& packed) {
  const Granularity g = packed.spec.granularity;
  return packed.axis == Axis::first && (g == Granularity::block || g == Granularity::row);
}

TileLayout::TileLayout(const ValueType& packed) : bits_(packed.spec.element.bits) {
  const MatrixView m = matrix_view(packed.shape);
  matrices_ = m.matrices;
  rows_ = m.rows;
  cols_ = m.cols;
  const bool blocks = packed.spec.granularity == Granularity::block;
  block_rows_ = std::max<int64_t>(1, blocks ? packed.spec.block_size : rows_);
  slab_rows_ = blocks ? block_rows_ : std::min(block_rows_, kRows);
  slabs_ = (rows_ + slab_rows_ - 1) / slab_rows_;
  tiles_ = (cols_ + kColumns - 1) / kColumns;
  row_bytes_ = fp4sim::code_row_bytes(packed);
}

Tile TileLayout::tile(int64_t i) const {
  const int64_t column = i % tiles_ * kColumns;
  const int64_t slab = i / tiles_ % slabs_, matrix = i / tiles_ / slabs_;
  const int64_t row = slab * slab_rows_, row_of_all = matrix * rows_ + row;
  const int64_t blocks_a_column = (rows_ + block_rows_ - 1) / block_rows_;
  return {row_of_all * cols_ + column, std::min(slab_rows_, rows_ - row), std::min(kColumns, cols_ - column),
          (matrix * blocks_a_column + row / block_rows_) * cols_ + column,
          row_of_all * row_bytes_ + column * bits_ / 8};
}

}  // namespace fp4sim::simd
