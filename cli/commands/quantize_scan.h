// What a piece cannot know of the rest of its tensor: amax of a column or of the whole tensor, from a first pass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cli/commands/quantize_cut.h"

namespace fp4sim::cli {

/// The largest magnitude of each scale's elements, as binary32 bits without the sign: 0x7F800000 and above where one of
/// them is not finite. Shape and spec give the grid of scales; one number for an unscaled spec.
std::vector<uint32_t> amax_bits(const std::vector<float>& values, const ValueType& packed);

class QuantizeScan {
 public:
  /// True if pieces need the pass.
  static bool is_needed(const Cut& cut);

  explicit QuantizeScan(const Cut& cut) : cut_(cut) {}
  /// To be called with every piece's operand.
  void add(const Piece& piece, const std::vector<float>& operand);

  /// A of §4.2 for quantize's optional input, where the tensor has several pieces and the spec has a tensor scale.
  std::optional<float> tensor_amax() const;
  /// A row to put below a partial piece so that its scales are those of the whole: each column's amax, NaN where the
  /// column is not finite; with one scale for the tensor, that of the tensor in the first column.
  std::vector<float> summary_row(const Piece& piece) const;
  /// amax of the finite values, of `bauto`.
  float finite_amax() const;

 private:
  const Cut& cut_;
  std::map<int64_t, std::vector<uint32_t>> columns_;  // by matrix
  uint32_t tensor_ = 0;                               // bits over all elements
  uint32_t finite_ = 0;                               // over finite elements
  uint32_t finite_blocks_ = 0;                        // over blocks without NaN and Inf
};

}  // namespace fp4sim::cli
