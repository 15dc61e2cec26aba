// quantize and dequantize (numerics.md §4): scales of all blocks first, then one code after the other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/contract/step_info.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/random_bits.h"
#include "reference/scalar/scale.h"

namespace fp4sim::scalar {
namespace {

/// What a block's elements say about its scale.
struct Block {
  float amax = 0;
  bool finite = true;
};

std::vector<Block> blocks_of(const float* x, const ValueType& type) {
  const ScaleGrid grid = scale_grid(type);
  const MatrixView m = matrix_view(type.shape);
  std::vector<Block> blocks(static_cast<size_t>(grid.count()));
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row)
      for (int64_t col = 0; col < m.cols; ++col) {
        Block& block = blocks[static_cast<size_t>(scale_index(grid, matrix, row, col))];
        const float magnitude = std::fabs(x[(matrix * m.rows + row) * m.cols + col]);
        if (!std::isfinite(magnitude)) block.finite = false;
        if (magnitude > block.amax) block.amax = magnitude;
      }
  return blocks;
}

/// A of §4.2: over finite blocks only.
float tensor_amax(const std::vector<Block>& blocks) {
  float amax = 0;
  for (const Block& block : blocks)
    if (block.finite) amax = std::max(amax, block.amax);
  return amax;
}

void write_scales(const std::vector<Block>& blocks, const Tensor& q) {
  const QuantSpec& spec = q.type.spec;
  TensorScales tensor{1.0f, 1.0f};
  if (has_tensor_scale(spec)) {
    tensor = tensor_scales(tensor_amax(blocks), spec);
    *out_data<float>(q, 2) = tensor.decode;
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    if (spec.scale == ScaleFormat::fp32)
      out_data<float>(q, 1)[i] = block.finite ? fp32_scale(block.amax, spec) : std::bit_cast<float>(kF32CanonicalNaN);
    else
      out_data<uint8_t>(q, 1)[i] =
          block.finite ? block_scale_code(block.amax, tensor, spec) : nonfinite_scale_code(spec);
  }
}

/// The random bits of elements by their row-major index in this tensor; zeros for deterministic roundings.
class Randomness {
 public:
  explicit Randomness(const NodeCall& call) {
    if (call.in.size() < 2) return;
    step_ = *in_data<StepInfo>(call.in[1]);
    stream_ = static_cast<uint32_t>(call.node.attrs.integer("stream"));
    const int64_t cols = matrix_view(call.in[0].type.shape).cols;
    first_ = static_cast<uint64_t>(call.node.attrs.integer("row_offset") * cols);
    stochastic_ = true;
  }
  uint32_t bits(int64_t i) const {
    return stochastic_ ? random_bits(step_.seed, stream_, step_.step, first_ + static_cast<uint64_t>(i)) : 0;
  }

 private:
  bool stochastic_ = false;
  StepInfo step_;
  uint32_t stream_ = 0;
  uint64_t first_ = 0;
};

void write_codes(const float* x, const Tensor& q, const Randomness& randomness) {
  const QuantSpec& spec = q.type.spec;
  const ScaleGrid grid = scale_grid(q.type);
  const MatrixView m = matrix_view(q.type.shape);
  const int64_t row_bytes = code_row_bytes(q.type);
  const float d = tensor_scale(q);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t row = 0; row < m.rows; ++row) {
      uint8_t* codes = out_data<uint8_t>(q) + (matrix * m.rows + row) * row_bytes;
      std::memset(codes, 0, static_cast<size_t>(row_bytes));  // the padding bits are zero (§4.4)
      for (int64_t col = 0; col < m.cols; ++col) {
        const int64_t i = (matrix * m.rows + row) * m.cols + col;
        const float scale = scale_value(q, is_unscaled(spec) ? 0 : scale_index(grid, matrix, row, col));
        if (std::isnan(scale)) continue;  // a block with NaN or Inf: codes +0
        const double y = scaled_value(x[i], scale, d, spec);
        const uint32_t code = encode_value(y, spec.element, spec.rounding, uses_ieee(spec), randomness.bits(i));
        store_code(codes, col, spec.element.bits, code);
      }
    }
}

}  // namespace

void kernels::quantize(const NodeCall& call) {
  const float* x = in_data<float>(call.in[0]);
  const Tensor& q = call.out[0];
  if (!is_unscaled(q.type.spec)) write_scales(blocks_of(x, q.type), q);
  write_codes(x, q, Randomness(call));
}

void kernels::dequantize(const NodeCall& call) { decode_packed(call.in[0], out_data<float>(call.out[0])); }

}  // namespace fp4sim::scalar
