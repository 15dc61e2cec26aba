// Value types of the graph: f32, bf16, i32, u8, packed and csr, and the memory layout of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/contract/quant_spec.h"

namespace fp4sim {

using Shape = std::vector<int64_t>;

enum class DType : uint8_t { f32, bf16, i32, u8, packed, csr };

/// Which axis of an operand is the contraction axis (and the quantization axis): the last, or the one before it
/// (`first` is for matrices; batched operands (…, k, n) count their last two dimensions).
enum class Axis : uint8_t { last, first };

const char* to_string(DType d);
const char* to_string(Axis a);
Axis parse_axis(const std::string& text);

/// Shape, element type and, for packed and csr, the spec and axis. `shape` is always the logical shape.
struct ValueType {
  DType dtype = DType::f32;
  Shape shape;
  QuantSpec spec;          // packed: the whole spec; csr: the spec whose occ option split it
  Axis axis = Axis::last;  // packed and csr

  friend bool operator==(const ValueType&, const ValueType&) = default;
};

/// Number of elements; 1 for a scalar (empty shape).
int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);     // "(64, 48)"
std::string to_string(const ValueType& type);  // "f32(64, 48)", "packed(64, 48; e2m1:b32:e8m0/floor:rne; last)"

/// A tensor as matrices: `matrices` of (rows, cols) each, row-major; 1-D is one row.
struct MatrixView {
  int64_t matrices, rows, cols;
};
MatrixView matrix_view(const Shape& shape);

/// The vectors along the contraction axis: `vectors` in all, `length` elements each, neighbours `stride` apart.
/// Vector v begins at element (v / inner)·inner·length + v % inner with inner = stride.
struct VectorView {
  int64_t vectors, length, stride;
  int64_t begin(int64_t v) const { return (v / stride) * stride * length + v % stride; }
};
VectorView vector_view(const Shape& shape, Axis axis);

/// The grid of scales of a packed value (§4.4), row-major: the scale of element (matrix, row, col) has index
/// matrix·rows·cols + (row / row_step)·cols + col / col_step; granularity tensor has the one scale 0 for all matrices.
struct ScaleGrid {
  int64_t matrices, rows, cols;  // of scales
  int64_t row_step, col_step;    // elements of the tensor per scale
  int64_t count() const { return matrices * rows * cols; }
};
ScaleGrid scale_grid(const ValueType& packed);

/// Length of the blocks along the contraction axis as the products of §7 see it: B, the whole vector (row, tensor), or
/// 0.
int64_t contraction_block(const QuantSpec& spec);

/// One component of a value in memory: its bytes are contiguous.
struct PartLayout {
  const char* name;  // "data"; "codes" "scales" "tensor_scale" "bias"; "row_ptr" "col" "values" "scale"
  DType dtype;       // f32, bf16, u8; i32 for col and bias; row_ptr is 64-bit: DType::u8 with 8 bytes an entry
  int64_t bytes;
};

/// Components in fixed order. f32/bf16/i32/u8: data. packed: codes[, scales][, tensor_scale], or codes, bias — scales
/// absent for unscaled specs, u8 codes or f32; bias (one i32) for `bauto` only. csr: row_ptr (i64, vectors+1), col
/// (i32, capacity), values (by residual format, capacity), scale (u8, e4m3 residuals only).
std::vector<PartLayout> part_layouts(const ValueType& type);
inline constexpr int kMaxParts = 4;

/// Bytes of one row of codes: each row of the stored layout is zero-padded to whole bytes (§4.4).
int64_t code_row_bytes(const ValueType& packed);

/// Static capacity of a csr value: per vector (or tensor) floor((1−α)n) + n−1−min(floor(αn), n−1) entries.
int64_t csr_capacity(const ValueType& csr);

/// Quantile indices of OCC (§6): lower = floor((1−α)·n), upper = min(floor(α·n), n−1), binary64 products.
struct QuantileIndices {
  int64_t lower, upper;
};
QuantileIndices quantile_indices(double alpha, int64_t n);

}  // namespace fp4sim
