#include "cli/commands/quantize_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/packed_file.h"
#include "cli/commands/quantize_operand.h"
#include "cli/commands/quantize_residual.h"
#include "cli/commands/quantize_scan.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

/// Scales that are NaN (§4: blocks with a NaN or an Inf).
int64_t count_nan(std::span<const std::byte> scales, const QuantSpec& spec) {
  int64_t count = 0;
  if (spec.scale == ScaleFormat::fp32) {
    for (size_t at = 0; at < scales.size(); at += 4) {
      float value;
      std::memcpy(&value, scales.data() + at, 4);
      count += value != value ? 1 : 0;
    }
    return count;
  }
  const uint32_t nan = spec.scale == ScaleFormat::e8m0 ? 0xFFu : nan_code(scale_element(spec));
  return std::count(scales.begin(), scales.end(), static_cast<std::byte>(nan));
}

class PackedJob final : public QuantizeJob {
 public:
  PackedJob(Backend& backend, const io::TensorSource& source, const QuantizeSettings& settings)
      : backend_(backend),
        source_(source),
        settings_(settings),
        cut_(cut_for_quantize({DType::packed, source.shape(), settings.spec, settings.axis}, settings.piece_bytes)),
        scan_(cut_),
        residual_(backend, source.name(), settings.spec.occ.residual),
        quantizer_(backend) {}

  int64_t pieces() const override { return static_cast<int64_t>(cut_.pieces.size()) * (scans() ? 2 : 1); }

  void prepare(const PieceDone& done) override {
    if (!scans()) return;
    Operand operand = open([&](const ResidualPiece& piece) { residual_.count(piece); });
    for (const Piece& piece : cut_.pieces) {
      scan_.add(piece, operand.read(piece).operand);
      done();
    }
  }

  Items items() const override {
    Items all = packed_items(source_.name(), cut_.original);
    if (settings_.spec.occ.enabled) all.merge(residual_.items(vector_view(source_.shape(), settings_.axis).vectors));
    return all;
  }

  std::map<std::string, std::string> metadata() const override {
    std::map<std::string, std::string> entries{{source_.name() + kShapeKey, shape_text(source_.shape())}};
    if (settings_.spec.element.bias_auto) entries[source_.name() + kBiasKey] = std::to_string(automatic_bias());
    return entries;
  }

  QuantStats write(io::SafetensorsWriter& out, const DecodedSink& decoded, const PieceDone& done) override {
    QuantStats stats;
    stats.residual_entries = residual_.entries();
    for (const auto& [name, item] : items())
      stats.stored_bytes += element_count(item.shape) * io::file_type_bytes(item.type);
    Operand operand = open([&](const ResidualPiece& piece) { residual_.write(piece, out); });
    for (const Piece& piece : cut_.pieces) {
      const Operand::Values values = operand.read(piece);
      const Quantized q = quantize(piece, values.operand, settings_.statistics || decoded);
      store(piece, q, out, stats);
      if (settings_.statistics) measure(piece, values, q, stats);
      if (decoded)
        decoded(cut_.first_element(piece), std::span(q.decoded).first(static_cast<size_t>(cut_.count(piece))));
      done();
    }
    return stats;
  }

 private:
  bool scans() const { return settings_.spec.occ.enabled || QuantizeScan::is_needed(cut_); }

  Operand open(ResidualSink sink) {
    return Operand(backend_, source_, cut_, settings_.random, settings_.piece_bytes, settings_.scratch_folder,
                   std::move(sink));
  }

  /// The piece's packed value; a row that stands for the rest of the tensor is appended where scales span more.
  Quantized quantize(const Piece& piece, const std::vector<float>& values, bool decode) {
    QuantizeCall call{cut_.type_of(piece), values, settings_.random, piece.first_row, scan_.tensor_amax(), decode};
    if (!cut_.is_partial(piece)) return run_quantize(quantizer_, call);
    std::vector<float> extended = values;
    const std::vector<float> summary = scan_.summary_row(piece);
    extended.insert(extended.end(), summary.begin(), summary.end());
    call.packed.shape = {cut_.rows_of(piece) + 1, cut_.cols};
    call.values = extended;
    return run_quantize(quantizer_, call);
  }

  int32_t automatic_bias() const {
    const std::vector<float> amax{scan_.finite_amax()};
    GraphRunner runner(backend_);
    return run_quantize(runner, {{DType::packed, {1}, cut_.spec, Axis::last}, amax, settings_.random, 0, {}, false})
        .bias;
  }

  /// Writes what of the piece belongs to the tensor: no padding, and scales of several pieces once.
  void store(const Piece& piece, const Quantized& q, io::SafetensorsWriter& out, QuantStats& stats) const {
    const std::string& name = source_.name();
    const Items all = packed_items(name, cut_.original);
    const auto put = [&](const char* part, int64_t offset, HostPart bytes, int64_t count) {
      const Items::mapped_type& item = all.at(name + part);
      const int64_t total = element_count(item.shape) * io::file_type_bytes(item.type);
      bytes = bytes.first(static_cast<size_t>(std::min(count, total - offset)));
      out.write(name + part, offset, bytes);
      return bytes;
    };
    const int64_t row_bytes = (cut_.cols * cut_.spec.element.bits + 7) / 8;
    put(kCodes, piece.first_row * row_bytes, host_part(q.codes), cut_.rows_of(piece) * row_bytes);
    if (piece.first_row == 0 && has_tensor_scale(cut_.spec))
      put(kTensorScale, 0, std::as_bytes(std::span(&q.tensor_scale, 1)), 4);
    if (is_unscaled(cut_.spec) || !cut_.is_first_with_its_scales(piece)) return;
    const int64_t width = cut_.spec.scale == ScaleFormat::fp32 ? 4 : 1;
    const ScaleRange scales = cut_.scales_of(piece);
    const HostPart stored = put(kScales, width * scales.first, host_part(q.scales), width * scales.count);
    stats.nonfinite_blocks += count_nan(stored, cut_.spec);
  }

  /// What the file's residual adds to each element; empty without OCC.
  std::vector<float> decoded_residual(const Operand::Values& values) {
    if (values.rotated.empty()) return {};
    std::vector<float> differences(values.operand.size(), 0.0f);
    for (size_t i = 0; i < differences.size(); ++i)
      if (values.rotated[i] < values.operand[i] || values.rotated[i] > values.operand[i])
        differences[i] = values.rotated[i] - values.operand[i];
    return residual_.decoded(differences);
  }

  void measure(const Piece& piece, const Operand::Values& values, const Quantized& q, QuantStats& stats) {
    const std::vector<float> residual = decoded_residual(values);
    const int bits = cut_.spec.element.bits;
    const int64_t row_bytes = (cut_.cols * bits + 7) / 8, count = cut_.count(piece);
    for (int64_t begin = 0; begin < count; begin += cut_.cols) {
      const StatsValues row{values.reference().data() + begin, values.operand.data() + begin, q.decoded.data() + begin,
                            residual.empty() ? nullptr : residual.data() + begin};
      const uint8_t* codes = q.codes.data() + begin / cut_.cols * row_bytes;
      add_elements(stats, cut_.spec, cut_.spec.element, std::min(cut_.cols, count - begin), row,
                   [&](int64_t i) { return code_at(codes, i, bits); });
    }
  }

  Backend& backend_;
  const io::TensorSource& source_;
  const QuantizeSettings& settings_;
  Cut cut_;
  QuantizeScan scan_;
  ResidualWriter residual_;
  GraphRunner quantizer_;
};

/// The checks of the ops on the whole tensor's shape.
void check_shape(Backend& backend, const io::TensorSource& source, const QuantizeSettings& s) {
  const ValueType x{DType::f32, source.shape(), {}, Axis::last};
  const std::string axis = to_string(s.axis);
  if (s.spec.hadamard.n != 0)
    infer_types(Op::hadamard, {x}, {{"n", int64_t{s.spec.hadamard.n}}, {"axis", axis}, {"signs", std::string("none")}});
  QuantSpec rne = s.spec;
  rne.rounding = Rounding::rne;
  const Attrs attrs{{"spec", to_string(rne)}, {"axis", axis}};
  const std::vector<ValueType> in{x}, out = infer_types(Op::quantize, in, attrs);
  backend.check({Op::quantize, {}, {}, attrs, ""}, in, out);
}

}  // namespace

std::unique_ptr<QuantizeJob> make_quantize_job(Backend& backend, const io::TensorSource& source,
                                               const QuantizeSettings& settings) {
  try {
    if (settings.layout == PackedLayout::ggml) return make_ggml_job(source, settings);
    check_shape(backend, source, settings);
    return std::make_unique<PackedJob>(backend, source, settings);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: tensor '{}': {}", source.path(), source.name(), error.what()));
  }
}

}  // namespace fp4sim::cli
