#include "cli/commands/quantize_residual.h"

#include <algorithm>
#include <cmath>

#include "cli/commands/packed_file.h"

namespace fp4sim::cli {
namespace {

struct FormatRow {
  ResidualFormat format;
  const char* spec;  // of the values as a tensor
  io::FileType type;
};
constexpr FormatRow kFormats[] = {
    {ResidualFormat::fp32, "fp32", io::FileType::f32},
    {ResidualFormat::bf16, "bf16", io::FileType::bf16},
    {ResidualFormat::e4m3, "e4m3:tensor:e8m0/rceil:rne", io::FileType::u8},
};

const FormatRow& row_of(ResidualFormat format) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats),
                       [&](const FormatRow& r) { return r.format == format; });
}

}  // namespace

void ResidualWriter::count(const ResidualPiece& piece) {
  entries_ += static_cast<int64_t>(piece.values.size());
  for (const float v : piece.values) largest_ = std::max(largest_, std::fabs(v));
}

QuantizeJob::Items ResidualWriter::items(int64_t vectors) const {
  if (format_ == ResidualFormat::none) return {};
  const std::string name = name_ + kResidual;
  QuantizeJob::Items items{{name + "row_ptr", {io::FileType::i64, {vectors + 1}}},
                           {name + "col", {io::FileType::i64, {entries_}}},
                           {name + "values", {row_of(format_).type, {entries_}}}};
  if (format_ == ResidualFormat::e4m3) items[name + "scale"] = {io::FileType::u8, {}};
  return items;
}

Quantized ResidualWriter::encode(std::vector<float> values, bool decode) {
  values.push_back(largest_);  // its scale is that of all entries
  const Shape shape{static_cast<int64_t>(values.size())};
  const QuantSpec spec = parse_quant_spec(row_of(format_).spec);
  QuantizeCall call{{DType::packed, shape, spec, Axis::last}, values, {}, 0, std::nullopt, decode};
  Quantized result = run_quantize(runner_, call);
  result.codes.resize((values.size() - 1) * static_cast<size_t>(spec.element.bits / 8));
  if (decode) result.decoded.pop_back();
  return result;
}

void ResidualWriter::write(const ResidualPiece& piece, io::SafetensorsWriter& out) {
  const auto vectors = static_cast<int64_t>(piece.row_ptr.size()) - 1;
  const auto count = static_cast<int64_t>(piece.values.size());
  if (format_ != ResidualFormat::none) {
    const std::string name = name_ + kResidual;
    std::vector<int64_t> row_ptr(piece.row_ptr.begin() + 1, piece.row_ptr.end()),
        col(piece.col.begin(), piece.col.end());
    for (int64_t& end : row_ptr) end += written_;
    out.write(name + "row_ptr", 8 * (vectors_ + 1), host_part(row_ptr));
    out.write(name + "col", 8 * written_, host_part(col));
    const Quantized values = encode(piece.values, false);
    out.write(name + "values", io::file_type_bytes(row_of(format_).type) * written_, host_part(values.codes));
    if (format_ == ResidualFormat::e4m3) out.write(name + "scale", 0, values.scales);
  }
  vectors_ += vectors;
  written_ += count;
}

std::vector<float> ResidualWriter::decoded(const std::vector<float>& differences) {
  if (format_ == ResidualFormat::none) return std::vector<float>(differences.size(), 0.0f);
  return encode(differences, true).decoded;
}

}  // namespace fp4sim::cli
