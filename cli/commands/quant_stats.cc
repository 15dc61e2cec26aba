#include "cli/commands/quant_stats.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands/table.h"
#include "reference/contract/host_math.h"

namespace fp4sim::cli {
namespace {

constexpr double kDecibel = 0x1.15f2ced384f28p+2;  // 10/ln 10

struct Figure {
  const char* key;
  const char* title;  // of the text table
  Cell (*value)(const QuantStats&);
};
constexpr Figure kFigures[] = {
    {"elements", "elements", [](const QuantStats& s) -> Cell { return s.elements; }},
    {"mse", "MSE", [](const QuantStats& s) -> Cell { return s.mse(); }},
    {"snr_db", "SNR dB", [](const QuantStats& s) -> Cell { return s.snr_db(); }},
    {"cosine", "cosine", [](const QuantStats& s) -> Cell { return s.cosine(); }},
    {"saturated", "saturated", [](const QuantStats& s) -> Cell { return s.saturated; }},
    {"flushed_to_zero", "flushed to 0", [](const QuantStats& s) -> Cell { return s.flushed_to_zero; }},
    {"nonfinite_blocks", "nonfinite blocks", [](const QuantStats& s) -> Cell { return s.nonfinite_blocks; }},
    {"overflow_on_decode", "overflow", [](const QuantStats& s) -> Cell { return s.overflow_on_decode; }},
    {"excluded", "excluded", [](const QuantStats& s) -> Cell { return s.excluded; }},
    {"residual_entries", "residual entries", [](const QuantStats& s) -> Cell { return s.residual_entries; }},
    {"bits_per_element", "bits/element", [](const QuantStats& s) -> Cell { return s.bits_per_element(); }},
};

/// Text tables show 6 digits.
Cell shown(const Cell& cell) {
  const auto* number = std::get_if<double>(&cell);
  if (number == nullptr || !std::isfinite(*number)) return cell;
  return fmt::format("{:.6g}", *number);
}

nlohmann::ordered_json object_of(const QuantStats& stats) {
  auto object = nlohmann::ordered_json::object();
  for (const Figure& figure : kFigures) {
    const Cell cell = figure.value(stats);
    if (const auto* integer = std::get_if<int64_t>(&cell)) {
      object[figure.key] = *integer;
    } else {
      const double value = std::get<double>(cell);
      if (std::isfinite(value))
        object[figure.key] = value;
      else
        object[figure.key] = value != value ? "NaN" : value > 0 ? "Inf" : "-Inf";
    }
  }
  return object;
}

QuantStats total_of(const std::vector<NamedStats>& tensors) {
  QuantStats total;
  for (const NamedStats& tensor : tensors) total.add(tensor.stats);
  return total;
}

}  // namespace

const char* const kStatsHelp =
    "Statistics compare, in binary64, what the output represents (decoded value plus, where OCC clamped, the decoded "
    "residual) with the input after +had and before +occ (under +sr34 with 3/4 of it). MSE: mean squared difference; "
    "SNR: 10*log10(sum x^2/sum d^2); cosine of the two vectors; over elements where both are finite, the others are "
    "`excluded`. saturated: finite operands of quantize with the code of +-max_normal whose magnitude exceeds the "
    "decoded one; flushed to 0: finite nonzero operands that decode to 0; nonfinite blocks: blocks with a NaN or Inf, "
    "whose scale is NaN; overflow: finite operands and codes that decode to Inf; residual entries: elements that OCC "
    "clamped; bits/element: all stored bytes (codes, scales, tensor scale, residual) times 8.";

void QuantStats::add(const QuantStats& o) {
  elements += o.elements, excluded += o.excluded;
  xx += o.xx, qq += o.qq, xq += o.xq, dd += o.dd;
  saturated += o.saturated, flushed_to_zero += o.flushed_to_zero, nonfinite_blocks += o.nonfinite_blocks;
  overflow_on_decode += o.overflow_on_decode, residual_entries += o.residual_entries, stored_bytes += o.stored_bytes;
}

double QuantStats::mse() const { return dd / static_cast<double>(elements - excluded); }

double QuantStats::snr_db() const {
  if (dd == 0) return xx == 0 ? std::nan("") : HUGE_VAL;
  if (xx == 0) return -HUGE_VAL;
  // as a difference: a quotient of sums may leave binary64
  return kDecibel * (host_math::log64(xx) - host_math::log64(dd));
}

double QuantStats::cosine() const { return xq / (std::sqrt(xx) * std::sqrt(qq)); }

double QuantStats::bits_per_element() const {
  return 8 * static_cast<double>(stored_bytes) / static_cast<double>(elements);
}

bool is_max_normal(uint32_t code, const ElementFormat& f) {
  const uint32_t sign = 1u << (f.bits - 1);
  uint32_t magnitude = code & (sign - 1);
  if (f.encoding == Encoding::twos_complement && (code & sign) != 0) magnitude = sign - magnitude;
  return magnitude == max_normal_code(f);
}

bool is_infinity(uint32_t code, const ElementFormat& f) {
  return f.specials == Specials::ieee && (code & ((1u << (f.bits - 1)) - 1)) == inf_code(f);
}

uint32_t code_at(const uint8_t* row, int64_t index, int bits) {
  const int64_t first = index * bits;
  uint64_t window = 0;
  const int64_t last_byte = (first + bits - 1) / 8;
  for (int64_t byte = last_byte; byte >= first / 8; --byte) window = window << 8 | row[byte];
  return static_cast<uint32_t>(window >> (first % 8) & ((uint64_t{1} << bits) - 1));
}

std::string stats_text(const std::vector<NamedStats>& tensors) {
  Table table{"statistics", {"tensor"}, {}};
  for (const Figure& figure : kFigures) table.columns.push_back(figure.title);
  const auto add_row = [&](const std::string& name, const QuantStats& stats) {
    table.rows.push_back({name});
    for (const Figure& figure : kFigures) table.rows.back().push_back(shown(figure.value(stats)));
  };
  for (const NamedStats& tensor : tensors) add_row(tensor.name, tensor.stats);
  if (tensors.size() > 1) add_row("total", total_of(tensors));
  return print_tables({table}, TableStyle::text);
}

std::string stats_json(const std::vector<NamedStats>& tensors) {
  auto json = nlohmann::ordered_json::object();
  json["tensors"] = nlohmann::ordered_json::object();
  for (const NamedStats& tensor : tensors) json["tensors"][tensor.name] = object_of(tensor.stats);
  json["total"] = object_of(total_of(tensors));
  return json.dump(2) + "\n";
}

}  // namespace fp4sim::cli
