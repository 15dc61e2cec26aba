// What the readers of one matrix make of it, from one reading: quantization in blocks along either axis and the sums of
// the columns, maybe behind a chain of element-wise ops whose result need not be stored.
#pragma once

#include <optional>
#include <span>

#include "gpu/elements.cuh"
#include "gpu/quantize_fast.h"

namespace fp4sim::gpu {

/// The work on a tensor of `matrices` times `rows` rows.
struct TileWork {
  int64_t matrices, rows, cols;
  ElementProgram program;             // n elements of x; without instructions these are what is quantized and summed
  std::optional<QuantizeCall> last;   // in blocks along the rows,
  std::optional<QuantizeCall> first;  // down the columns: both by one spec
  float* sums = nullptr;              // of the columns; nullptr: not wanted
};

/// True if the kernel does what the node, a quantization, does: blocks of 16 or 32 with e8m0 scales along either axis,
/// elements of 4, 6 or 8 bits.
bool tiles_quantize(const NodeCall& quantize);

/// True if the kernel runs element-wise ops before it quantizes by this spec: e2m1, rne or sr32, and e4m3, rne.
bool tiles_run_programs(const QuantSpec& spec);

/// True if the kernel can count the rows, and the columns.
bool tiles_walk(int64_t matrices, int64_t rows, int64_t cols);

/// True if the kernel walks matrices of this many rows so that panels of sums are whole tiles, and columns in fours.
bool tiles_sum(int64_t matrices, int64_t rows, int64_t cols);

/// True if the kernel takes other inputs of this many elements: as many as the tensor, or one row.
bool tiles_take_operand(int64_t count, int64_t elements, int64_t cols);

constexpr size_t kMostTileWorks = 8;

/// Works of one launch: of one with instructions, or of up to kMostTileWorks without, by one deterministic spec and,
/// where columns are summed, of one shape.
void run_tiles(std::span<const TileWork> works, Context& context);

}  // namespace fp4sim::gpu
