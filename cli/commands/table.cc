#include "cli/commands/table.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace fp4sim::cli {
namespace {

std::string cell_text(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&cell)) return std::to_string(*integer);
  const double value = std::get<double>(cell);
  if (value != value) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  return fmt::format("{}", value);
}

nlohmann::ordered_json cell_json(const Cell& cell) {
  if (const auto* integer = std::get_if<int64_t>(&cell)) return *integer;
  if (const auto* value = std::get_if<double>(&cell); value != nullptr && std::isfinite(*value)) return *value;
  return cell_text(cell);
}

/// Columns of a UTF-8 text.
size_t display_width(const std::string& text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return width;
}

std::string print_aligned(const Table& table) {
  std::vector<std::vector<std::string>> lines = {table.columns};
  for (const auto& row : table.rows) {
    lines.emplace_back();
    for (const Cell& cell : row) lines.back().push_back(cell_text(cell));
  }
  std::vector<size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines)
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], display_width(line[c]));
  std::string out = table.title + "\n";
  for (const auto& line : lines) {
    std::string text = " ";
    for (size_t c = 0; c < line.size(); ++c)
      text += " " + line[c] + std::string(widths[c] - display_width(line[c]) + 1, ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string print_csv(const Table& table) {
  const auto line = [](const std::vector<std::string>& fields) {
    std::string text;
    for (const std::string& field : fields) text += (text.empty() ? "" : ",") + csv_field(field);
    return text + "\n";
  };
  std::string out = line(table.columns);
  for (const auto& row : table.rows) {
    std::vector<std::string> fields;
    for (const Cell& cell : row) fields.push_back(cell_text(cell));
    out += line(fields);
  }
  return out;
}

nlohmann::ordered_json to_json(const Table& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    auto object = nlohmann::ordered_json::object();
    for (size_t c = 0; c < row.size(); ++c) object[table.columns[c]] = cell_json(row[c]);
    rows.push_back(std::move(object));
  }
  return rows;
}

}  // namespace

std::string print_tables(const std::vector<Table>& tables, TableStyle style) {
  if (style == TableStyle::json) {
    auto all = nlohmann::ordered_json::object();
    for (const Table& table : tables) all[table.title] = to_json(table);
    return all.dump(2) + "\n";
  }
  std::string out;
  for (const Table& table : tables)
    out += (out.empty() ? "" : "\n") + (style == TableStyle::csv ? print_csv(table) : print_aligned(table));
  return out;
}

}  // namespace fp4sim::cli
