// fp4sim formats: the tables of reference/contract, and the values of any format code by code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/table.h"
#include "cli/io/ggml_blocks.h"
#include "reference/contract/error.h"
#include "reference/contract/estimator.h"
#include "reference/contract/quant_spec.h"
#include "reference/scalar/codec.h"

namespace fp4sim::cli {
namespace {

struct Options {
  std::vector<std::string> names;
  bool csv = false, json = false;
};

const char* specials_text(Specials specials) {
  switch (specials) {
    case Specials::none: return "none";
    case Specials::nan_only: return "NaN";
    case Specials::ieee: return "Inf, NaN";
  }
  return "";
}

/// One row of limits, the same columns for every format.
const std::vector<std::string> kLimitColumns = {"name",       "bits",         "E",        "M",    "bias",
                                                "max_normal", "min_positive", "specials", "notes"};
std::vector<Cell> limits_row(const ElementFormat& f, const std::string& name, const std::string& notes) {
  return {name,
          int64_t{f.bits},
          int64_t{f.exponent_bits},
          int64_t{f.mantissa_bits},
          int64_t{f.bias},
          max_normal_value(f),
          min_positive_value(f),
          specials_text(f.specials),
          notes};
}

Table element_formats() {
  Table table{"element formats", kLimitColumns, {}};
  for (const ElementFormatRow& row : kElementFormats) table.rows.push_back(limits_row(row.format, row.name, row.notes));
  return table;
}

QuantSpec with_scale(const std::string& scale) { return parse_quant_spec("e2m1:b32:" + scale); }

struct ScaleLimits {
  double largest = 0;
  double smallest = 0;
};
/// The largest and the smallest positive value over all codes.
ScaleLimits scale_limits(const QuantSpec& spec) {
  ScaleLimits limits;
  for (int code = 0; code < 256; ++code) {
    const double value = scalar::decode_scale(static_cast<uint8_t>(code), spec);
    if (!(value > 0) || value != value) continue;
    if (limits.smallest == 0 || value < limits.smallest) limits.smallest = value;
    limits.largest = std::max(limits.largest, value);
  }
  return limits;
}

Table scale_formats() {
  Table table{"scale formats", {"name", "bits", "max", "min_positive", "notes"}, {}};
  const std::pair<const char*, const char*> rows[] = {
      {"e8m0", "2^(code-127), 0xFF NaN, no zero (OCP MX v1.0)"},
      {"e4m3", "sign never set, 0x7F NaN"},
      {"ue5m3", "ue{E}m{M}: user-defined unsigned, all-ones code NaN (this row: one example)"}};
  for (const auto& [name, notes] : rows) {
    const ScaleLimits limits = scale_limits(with_scale(name));
    table.rows.push_back({name, int64_t{8}, limits.largest, limits.smallest, notes});
  }
  table.rows.push_back(
      {"fp32", int64_t{32}, max_normal_value(kFp32), min_positive_value(kFp32), "no codes: binary32 itself"});
  return table;
}

/// The scale formats of a rule (numerics.md §4.2: the profiles of released programs are for e4m3 only).
const char* scale_formats_of(const ScaleRuleRow& row) {
  if (row.scale == ScaleFormat::e8m0) return "e8m0";
  if (row.scale == ScaleFormat::fp32) return "fp32";
  const bool general = row.rule == ScaleRule::te || row.rule == ScaleRule::exact || row.rule == ScaleRule::one;
  return general ? "e4m3, ue{E}m{M}" : "e4m3";
}

/// What can be spelled beyond the rows (numerics.md §2, §4).
Table spelled_formats() {
  return {"formats spelled out",
          {"name", "kind", "bits", "bias"},
          {{"e{E}m{M}f", "element, E 1-5, M 0-6", "3-8", "2^(E-1)-1, 1 for E=1"},
           {"e{E}m{M}b{bias}f", "element, max_normal <= FLT_MAX, smallest value >= 2^-149", "3-8", "as given"},
           {"e{E}m{M}bautof", "element, unscaled specs only", "3-8", "the largest with max_normal >= amax"},
           {"ue{E}m{M}", "scale, unsigned, E 1-8, M 0-7", "2-8", "2^(E-1)-1"}}};
}

/// Layouts of `quantize --layout` besides fp4sim's own.
Table ggml_layouts() {
  Table table{"ggml layouts", {"name", "spec", "block elements", "block bytes", "scale bytes", "nibbles"}, {}};
  for (const io::GgmlLayout& row : io::kGgmlLayouts)
    table.rows.push_back({row.name, to_string(io::ggml_spec(row)), int64_t{row.block_elements},
                          int64_t{row.block_bytes}, int64_t{row.scales}, row.nibbles});
  return table;
}

std::vector<Table> all_tables() {
  Table rules{"scale rules", {"name", "scale formats", "default"}, {}};
  for (const ScaleRuleRow& row : kScaleRules)
    rules.rows.push_back({row.name, scale_formats_of(row), row.is_default ? "yes" : ""});
  Table roundings{"rounding", {"name", "meaning"}, {}};
  for (const RoundingRow& row : kRoundings) roundings.rows.push_back({row.name, row.meaning});
  Table estimators{"estimators", {"name", "parameters", "source"}, {}};
  for (const EstimatorRow& row : kEstimators) estimators.rows.push_back({row.name, row.parameters, row.source});
  Table aliases{"spec aliases", {"name", "spec"}, {}};
  for (const SpecAlias& row : kSpecAliases) aliases.rows.push_back({row.name, row.expansion});
  return {element_formats(), scale_formats(), spelled_formats(), rules, roundings, estimators, aliases, ggml_layouts()};
}

std::string binary(uint32_t bits, int count) {
  std::string text;
  for (int i = count - 1; i >= 0; --i) text += (bits >> i & 1) != 0 ? '1' : '0';
  return text;
}

/// Sign, exponent and mantissa with dots between them; two's complement as it is.
std::string code_bits(uint32_t code, const ElementFormat& f) {
  if (f.encoding == Encoding::twos_complement) return binary(code, f.bits);
  std::string text = binary(code >> (f.bits - 1), 1) + "." + binary(code >> f.mantissa_bits, f.exponent_bits);
  return f.mantissa_bits == 0 ? text : text + "." + binary(code, f.mantissa_bits);
}

const std::vector<std::string> kValueColumns = {"code", "bits", "value"};

std::vector<Table> element_tables(const ElementFormat& format, const std::string& name, TableStyle style) {
  if (format.bias_auto)
    throw UsageError(fmt::format("`{}` has no fixed values: its bias is chosen for each tensor", name));
  std::string notes;
  for (const ElementFormatRow& row : kElementFormats)
    if (row.format == format) notes = row.notes;
  const Table limits{name, kLimitColumns, {limits_row(format, name, notes)}};
  const bool listed = format.bits <= (style == TableStyle::text ? 8 : 16);
  if (!listed) return {limits};
  Table values{name + " values", kValueColumns, {}};
  for (uint32_t code = 0; code < 1u << format.bits; ++code)
    values.rows.push_back({fmt::format("0x{:0{}X}", code, (format.bits + 3) / 4), code_bits(code, format),
                           static_cast<double>(scalar::decode_code(code, format))});
  // CSV is one table: the values
  if (style == TableStyle::csv) return {values};
  return {limits, values};
}

std::vector<Table> scale_tables(const QuantSpec& spec, const std::string& name, TableStyle style) {
  const ScaleLimits range = scale_limits(spec);
  const Table limits{
      name, {"name", "bits", "max", "min_positive"}, {{name, int64_t{8}, range.largest, range.smallest}}};
  const int bits = spec.scale == ScaleFormat::e8m0 ? 8 : spec.scale_exponent_bits + spec.scale_mantissa_bits;
  Table values{name + " values", kValueColumns, {}};
  for (uint32_t code = 0; code < 1u << bits; ++code)
    values.rows.push_back({fmt::format("0x{:02X}", code), binary(code, bits),
                           static_cast<double>(scalar::decode_scale(static_cast<uint8_t>(code), spec))});
  if (style == TableStyle::csv) return {values};
  return {limits, values};
}

Table spec_table(const QuantSpec& spec, const std::string& name) {
  return {name,
          {"name", "spec", "element", "scaled", "tensor scale"},
          {{name, to_string(spec), format_name(spec.element), is_unscaled(spec) ? "no" : "yes",
            has_tensor_scale(spec) ? "yes" : "no"}}};
}

/// An element format, a scale format, or a spec (alias or spelled out), in this order: e4m3 is the element format.
std::vector<Table> tables_of(const std::string& name, TableStyle style) {
  try {
    return element_tables(parse_quant_spec(name + ":none").element, name, style);
  } catch (const UsageError&) {
    if (name.find("auto") != std::string::npos) throw;
  }
  try {
    if (name.find_first_of(":/+") == std::string::npos) return scale_tables(with_scale(name), name, style);
  } catch (const UsageError&) {
  }
  try {
    return {spec_table(parse_quant_spec(name), name)};
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("`{}` is no element format, scale format or spec: {}", name, error.what()));
  }
}

void run(const Options& o) {
  if (o.csv && o.json) throw UsageError("--csv and --json exclude each other");
  const TableStyle style = o.csv ? TableStyle::csv : o.json ? TableStyle::json : TableStyle::text;
  std::vector<Table> tables = o.names.empty() ? all_tables() : std::vector<Table>{};
  for (const std::string& name : o.names)
    for (Table& table : tables_of(name, style)) tables.push_back(std::move(table));
  const std::string text = print_tables(tables, style);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_formats_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("formats", "Print every format, rule and estimator, or the values of a format");
  command->add_option(
      "names", o->names,
      "element formats (e2m1, e3m3f, e2m1b-3f …), scale formats (e8m0, ue5m3 …) or specs (nvfp4, e2m1:row:fp32 …)");
  command->add_flag("--csv", o->csv, "CSV instead of text; 16-bit formats list every code");
  command->add_flag("--json", o->json, "JSON instead of text; 16-bit formats list every code");
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
