// Products of §7 as register tiles over packed operands: plain data and one table of kernels per engine and level.
// An engine is the arithmetic of a dot: binary32 chain, binary64 (exact), int8 (exact). An operand is cut along k into
// *units* of one element (int8: four consecutive k in 4 bytes). Packed forms, per tile of at most mr (A) or nr (B)
// vectors:
//   columns: [depth][width] units — a step of k is one contiguous row (B always, A where k is the outer axis in
//   memory); rows:    [vector][row_stride] units — A where k is the inner axis in memory.
// Kernels know nothing of tensors, specs or threads.
#pragma once

#include <cstdint>

#include "reference/simd/level_table.h"

namespace fp4sim::simd {

inline constexpr int kMaxTileRows = 14;
inline constexpr int64_t kAliasing = 1024;  // elements: rows so far apart share an L1 set

/// One call: `cols` ≤ nr columns of a tile over `depth` consecutive units of k. The number of rows is the function's.
struct Tile {
  const void* a;
  const void* b;
  int64_t a_stride;  // columns form: units between steps of k
  int64_t depth;
  void* out;           // chain: float, double or int32 accumulators; block: float
  int64_t out_stride;  // elements
  int cols;
  bool first;            // start from +0, else from what `out` holds
  int64_t block;         // block products: units per block; the last may be short
  const float* a_scale;  // [block][a_scale_stride], this tile's first row
  const float* b_scale;  // [block][b_scale_stride], this tile's first column, nr readable
  int64_t a_scale_stride, b_scale_stride;
  const int32_t* start;  // int8: [block][nr] first values of the dots, −offset·Σb (A is stored plus offset, unsigned)
  int64_t narrow;        // int8 without VNNI: units whose sums of pairs fit int16
};

using TileFn = void (*)(const Tile&);
enum AForm : int { kColumnsForm = 0, kRowsForm = 1 };

/// Sources of packing: `stride` elements between the outer lines of a row-major matrix of float (int8 engine: int8_t).
struct Engine {
  int mr, nr;          // 0 rows: the level does not have the engine
  int unit_bytes;      // of a packed unit
  int unit_elements;   // consecutive k in a unit
  int64_t depth;       // units of k packed at a time
  int64_t row_stride;  // units
  bool plain_units;    // units are the source's elements: a tile of A with k outer may be read where it lies
  /// k outer in memory, (depth·unit_elements, vectors) → columns form of `width` vectors, the missing ones zero.
  void (*pack_columns)(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
  /// k inner in memory, (vectors, depth·unit_elements) → columns form.
  void (*pack_transposed)(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
  /// k inner in memory → rows form.
  void (*pack_rows)(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to);
  /// int8: start[block][nr] = −offset·Σ b of each block of a packed B tile.
  void (*start_values)(const void* b, int64_t depth, int64_t block, int32_t offset, int32_t* start);
  /// out (+)= Σ a·b over all of depth.
  TileFn chain[2][kMaxTileRows];
  /// out = fma(dot, fl(a_scale·b_scale), out) for every block, ascending; dot rounded once to binary32. int8: dot in
  /// units, the unit being part of a_scale.
  TileFn block_product[2][kMaxTileRows];
};

/// Passes over `n` outputs of one row.
struct ProductFinish {
  void (*add)(const float* panel, float* y, int64_t n);                                 // y = fl(y + panel)
  void (*scale_f32)(const float* dot, float sa, const float* sb, float* y, int64_t n);  // y = fl(dot·fl(sa·sb[j]))
  void (*scale_f64)(const double* dot, float sa, const float* sb, float* y, int64_t n);  // y = fl(fl(dot)·fl(sa·sb[j]))
  void (*scale_i32)(const int32_t* dot, float unit, float sa, const float* sb, float* y, int64_t n);
  void (*multiply)(float d, float* y, int64_t n);  // y = fl(y·d)
  /// 4-bit codes, two a byte, → table[code] (+ offset folded into the table); n elements, n even is not required.
  void (*decode_nibbles)(const uint8_t* codes, const int8_t* table, int8_t* to, int64_t n);
  /// Sparse row: y[j] = fma chain from +0 over entries e ascending of values[e]·other[col[e]·stride + j].
  void (*sparse_row)(const float* values, const int32_t* col, int64_t entries, const float* other, int64_t stride,
                     float* y, int64_t n);
};

FP4SIM_LEVEL_TABLE(Engine, f32_engine)        // the fp32 rule: one fma chain
FP4SIM_LEVEL_TABLE(Engine, f32_exact_engine)  // sums known to be exact in binary32 (w_a + w_b + log2 n ≤ 24)
FP4SIM_LEVEL_TABLE(Engine, f64_engine)        // sums known to be exact in binary64
FP4SIM_LEVEL_TABLE(Engine, i8_narrow_engine)  // int8 with pair sums in int16; mr = 0 on sse2
FP4SIM_LEVEL_TABLE(ProductFinish, product_finish)

namespace avx512vnni {
extern const Engine i8_engine;
}

}  // namespace fp4sim::simd
