// Tables of texts and numbers, printed as aligned text, CSV or JSON.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace fp4sim::cli {

using Cell = std::variant<std::string, int64_t, double>;

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

enum class TableStyle { text, csv, json };

/// The tables as one text. text: title, then aligned columns. csv: a line of column names and a line each row, RFC 4180
/// quoting; tables are separated by an empty line. json: one object {title: [{column: value}]}. Numbers are in shortest
/// round-trip form; in JSON, NaN and infinities are the texts "NaN", "Inf" and "-Inf".
std::string print_tables(const std::vector<Table>& tables, TableStyle style);

}  // namespace fp4sim::cli
