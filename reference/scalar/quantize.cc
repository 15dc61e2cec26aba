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
#include "reference/scalar/scale_choice.h"
#include "reference/scalar/scaled_values.h"

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

/// The amax input of quantize: A in place of the tensor's own, or nullptr.
const float* given_amax(const NodeCall& call) { return call.in.size() == 3 ? in_data<float>(call.in[2]) : nullptr; }

/// The blocks' scales, and the tensor scales that y depends on.
TensorScales write_scales(const NodeCall& call, const ElementBits& random) {
  const float* x = in_data<float>(call.in[0]);
  const float* given = given_amax(call);
  const Tensor& q = call.out[0];
  const QuantSpec& spec = q.type.spec;
  std::vector<Block> blocks = blocks_of(x, q.type);
  if (given != nullptr && spec.granularity == Granularity::tensor) blocks[0].amax = *given;
  if (spec.scale == ScaleFormat::fp32) {
    for (size_t i = 0; i < blocks.size(); ++i)
      out_data<float>(q, 1)[i] =
          blocks[i].finite ? fp32_scale(blocks[i].amax, spec) : std::bit_cast<float>(kF32CanonicalNaN);
    return {};
  }
  TensorScales tensor;
  if (has_tensor_scale(spec)) {
    tensor = tensor_scales(given != nullptr ? *given : tensor_amax(blocks), spec);
    *out_data<float>(q, 2) = tensor.decode;
  }
  const uint8_t nan = nonfinite_scale_code(spec);
  std::vector<ScaleCandidates> candidates;
  for (const Block& block : blocks)
    candidates.push_back(block.finite ? scale_candidates(block.amax, tensor, spec) : ScaleCandidates{nan, nan});
  const std::vector<uint8_t> chosen = choose_scales(candidates, x, q.type, tensor, random);
  std::copy(chosen.begin(), chosen.end(), out_data<uint8_t>(q, 1));
  return tensor;
}

/// `bauto` (§2): the largest bias whose max_normal ≥ amax of the finite values, in the range of the format; the default
/// bias for amax = 0.
int32_t automatic_bias(const ElementFormat& format, float amax) {
  if (amax == 0) return format.bias;
  const BiasRange range = user_bias_range(format.exponent_bits, format.mantissa_bits);
  int bias = range.highest;
  while (bias > range.lowest && max_normal_value(with_bias(format, bias)) < static_cast<double>(amax)) --bias;
  return bias;
}

void write_bias(const NodeCall& call) {
  const Tensor& q = call.out[0];
  const float* x = in_data<float>(call.in[0]);
  float amax = 0;
  for (int64_t i = 0; i < element_count(q.type.shape); ++i)
    if (std::isfinite(x[i])) amax = std::max(amax, std::fabs(x[i]));
  const float* given = given_amax(call);
  *out_data<int32_t>(q, 1) = automatic_bias(q.type.spec.element, given != nullptr ? *given : amax);
}

ElementBits element_bits(const NodeCall& call) {
  if (!is_stochastic(call.out[0].type.spec.rounding)) return {};
  const int64_t cols = matrix_view(call.in[0].type.shape).cols;
  return {*in_data<StepInfo>(call.in[1]), static_cast<uint32_t>(call.node.attrs.integer("stream")),
          static_cast<uint64_t>(call.node.attrs.integer("row_offset") * cols)};
}

void write_codes(const float* x, const Tensor& q, const TensorScales& tensor, const ElementBits& random) {
  const QuantSpec& spec = q.type.spec;
  const ElementFormat format = element_of(q);
  const MatrixView m = matrix_view(q.type.shape);
  const int64_t row_bytes = code_row_bytes(q.type);
  auto* codes = out_data<uint8_t>(q);
  std::memset(codes, 0, static_cast<size_t>(m.matrices * m.rows * row_bytes));  // the padding bits are zero (§4.4)
  for_each_scaled(x, q, tensor, [&](const ScaledElement& e) {
    if (e.nonfinite) return;  // codes +0
    const uint32_t code = encode_value(e.y, format, spec.rounding, uses_ieee(spec), random.bits(e.index));
    store_code(codes + e.row * row_bytes, e.col, format.bits, code);
  });
}

}  // namespace

void kernels::quantize(const NodeCall& call) {
  const Tensor& q = call.out[0];
  const ElementBits random = element_bits(call);
  TensorScales tensor;
  if (!is_unscaled(q.type.spec)) tensor = write_scales(call, random);
  if (q.type.spec.element.bias_auto) write_bias(call);
  write_codes(in_data<float>(call.in[0]), q, tensor, random);
}

void kernels::dequantize(const NodeCall& call) { decode_packed(call.in[0], out_data<float>(call.out[0])); }

}  // namespace fp4sim::scalar
