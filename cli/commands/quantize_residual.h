// OCC's residual on its way to a file: counted in a first pass, encoded and written in the second.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/quantize_job.h"
#include "cli/commands/quantize_operand.h"

namespace fp4sim::cli {

class ResidualWriter {
 public:
  ResidualWriter(Backend& backend, std::string name, ResidualFormat format)
      : name_(std::move(name)), format_(format), runner_(backend) {}

  /// First pass: counts entries and takes their largest magnitude.
  void count(const ResidualPiece& piece);
  int64_t entries() const { return entries_; }
  /// NAME.residual.row_ptr, .col (I64), .values (F32, BF16, U8), .scale (U8, e4m3 only); nothing for format none.
  QuantizeJob::Items items(int64_t vectors) const;

  /// Second pass, pieces in the same order.
  void write(const ResidualPiece& piece, io::SafetensorsWriter& out);
  /// The decoded residuals of differences ΔY, elementwise, under the scale of all of them.
  std::vector<float> decoded(const std::vector<float>& differences);

 private:
  /// `values` in the residual's format; e4m3 with the power-of-two scale of the whole tensor (numerics.md §6).
  Quantized encode(std::vector<float> values, bool decode);

  std::string name_;
  ResidualFormat format_;
  GraphRunner runner_;
  int64_t entries_ = 0;
  float largest_ = 0;
  int64_t written_ = 0, vectors_ = 0;
};

}  // namespace fp4sim::cli
