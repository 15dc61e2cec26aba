// The operand of quantize, piece by piece: the tensor of a file after the spec's Hadamard rotation and OCC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/graph_runner.h"
#include "cli/commands/quantize_call.h"
#include "cli/commands/quantize_cut.h"
#include "cli/io/streams.h"
#include "cli/io/tensor_source.h"

namespace fp4sim::cli {

/// Residual entries of consecutive vectors: row_ptr of these alone (from 0), positions, ΔY in binary32 before it is
/// encoded.
struct ResidualPiece {
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> col;
  std::vector<float> values;
};
using ResidualSink = std::function<void(const ResidualPiece&)>;

/// OCC's vectors are the rows of a piece only along the last axis with a row's own quantiles; elsewhere the whole is
/// split at once, by columns or as one, and Yc waits in a scratch file.
class Operand {
 public:
  struct Values {
    std::vector<float> rotated;  // Y: after the Hadamard rotation; empty without OCC
    std::vector<float> operand;  // what quantize is given: Yc, or Y without OCC; zeros in the cut's padding
    const std::vector<float>& reference() const { return rotated.empty() ? operand : rotated; }
  };

  /// `sink` is given every residual entry once, vectors ascending, while the pieces are read in their order.
  Operand(Backend& backend, const io::TensorSource& source, const Cut& cut, const RandomState& random,
          int64_t piece_bytes, const std::string& scratch_folder, ResidualSink sink);

  Values read(const Piece& piece);

 private:
  struct Split {
    std::vector<float> clamped;
    ResidualPiece residual;
  };
  std::vector<float> rotate(const Shape& shape, std::vector<float> values);
  Split split(const Shape& shape, const std::vector<float>& values);
  void split_whole();
  void split_columns(int64_t piece_bytes);

  const io::TensorSource& source_;
  const Cut& cut_;
  RandomState random_;
  ResidualSink sink_;
  GraphRunner rotation_, clamp_;
  std::unique_ptr<io::ScratchFile> scratch_;
};

}  // namespace fp4sim::cli
