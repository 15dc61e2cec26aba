// How a tensor is cut into pieces that fit in memory, so that the pieces give the bits of the whole: pieces end where
// blocks, tiles and Hadamard blocks end, and what a scale takes from beyond its piece is known before
// (quantize_scan.h).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/value_type.h"

namespace fp4sim::cli {

/// Values of one piece, in bytes of binary32. About eight times as much memory is used.
inline constexpr int64_t kPieceBytes = int64_t{16} << 20;

/// What a scale may span beyond a piece of rows.
enum class Span : uint8_t { piece, columns, tensor };

/// `rows` consecutive rows, or `matrices` whole matrices of `rows` rows each.
struct Piece {
  int64_t first_row;  // of all matrices, one below the other
  int64_t matrices, rows;
};

/// Scales in the tensor's row-major order.
struct ScaleRange {
  int64_t first, count;
};

/// The tensor as its pieces see it. Rows that depend on nothing in other rows lie in one tall matrix; a single row
/// that is longer than a piece is wrapped into rows of a multiple of every block, the last one padded with zeros.
struct Cut {
  ValueType original;            // packed
  QuantSpec spec;                // of the pieces, without occ and hadamard
  int64_t matrices, rows, cols;  // of the view; of all matrices together, elements may end inside the last row
  int64_t elements;              // of the tensor
  Span span;                     // of scales
  std::vector<Piece> pieces;

  /// Where `span` is columns and a piece holds a part of a matrix, the scales need all of the matrix; where it is
  /// tensor and there are several pieces, all of the tensor.
  bool is_partial(const Piece& p) const {
    if (pieces.size() < 2 || span == Span::piece) return false;
    return span == Span::tensor || rows_of(p) < rows;
  }
  int64_t rows_of(const Piece& p) const { return p.matrices * p.rows; }
  /// Elements of the tensor in a piece: without the padding.
  int64_t first_element(const Piece& p) const { return p.first_row * cols; }
  int64_t count(const Piece& p) const;
  Shape shape_of(const Piece& p) const;
  /// The scales of a piece's elements, those of the padding included. Pieces of one column or tensor share them.
  ScaleRange scales_of(const Piece& p) const;
  bool is_first_with_its_scales(const Piece& p) const;
  ValueType type_of(const Piece& p) const { return {DType::packed, shape_of(p), spec, original.axis}; }
};

/// The cut of a packed value into pieces of about `piece_bytes`, at least one row of blocks each. Rules that choose a
/// scale by its error (opt, 4over6) need all of its elements in one piece: the matrix, or the tensor. Throws Error
/// where a piece needs more memory than the machine has.
Cut cut_for_quantize(const ValueType& packed, int64_t piece_bytes);
/// The same for decoding, where a scale may span any number of pieces.
Cut cut_for_decode(const ValueType& packed, int64_t piece_bytes);

/// Throws Error if values of so many bytes cannot be held, `what` saying what needs them at once.
void require_memory(int64_t value_bytes, const std::string& what);

}  // namespace fp4sim::cli
