// Reads the text and binary files of golden/spec: lines, fields and numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace fp4sim::test {

/// The bytes of golden/<name>; a missing file is an error, never an empty test.
inline std::string golden_bytes(const std::string& name) {
  std::ifstream file(std::string(FP4SIM_GOLDEN_DIR) + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("golden file missing: " + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The same as binary32 numbers.
inline std::vector<float> golden_floats(const std::string& name) {
  const std::string bytes = golden_bytes(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> fields;
  std::stringstream stream(text);
  for (std::string field; std::getline(stream, field, separator);) fields.push_back(field);
  return fields;
}

inline std::vector<std::string> words(const std::string& text) {
  std::stringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

inline uint32_t parse_hex(const std::string& text) {
  return static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 16));
}

/// A decimal number, or binary32 bits written 0x40c00000.
inline float parse_float(const std::string& text) {
  return text.starts_with("0x") ? std::bit_cast<float>(parse_hex(text)) : std::strtof(text.c_str(), nullptr);
}

struct CodeRow {
  uint32_t bits;  // of binary32
  uint32_t code;
};

/// golden/spec/ml_dtypes/<kind>_<format>.csv.
inline std::vector<CodeRow> ml_dtypes_rows(const std::string& kind, const std::string& format) {
  std::vector<CodeRow> rows;
  for (const std::string& line : split(golden_bytes("spec/ml_dtypes/" + kind + "_" + format + ".csv"), '\n')) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != 2 || fields[0].find("hex") != std::string::npos) continue;
    const uint32_t first = parse_hex(fields[0]), second = parse_hex(fields[1]);
    rows.push_back(kind == "encode" ? CodeRow{first, second} : CodeRow{second, first});
  }
  return rows;
}

}  // namespace fp4sim::test
