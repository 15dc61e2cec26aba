#include "fuzz/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "fuzz/differential.h"
#include "fuzz/golden_files.h"
#include "reference/contract/digest.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

constexpr size_t kFullBytes = 64;  // outputs up to this size are stored in full beside their digest

std::filesystem::path file_of(const std::string& directory, Op op) {
  return std::filesystem::path(directory) / "ops" / (std::string(op_name(op)) + ".txt");
}

/// Order-dependent combination of the inputs' digests (FNV-1a over 64-bit words).
uint64_t combined_digest(const std::vector<HostValue>& values) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const HostValue& value : values) hash = (hash ^ digest_value(value)) * 0x100000001B3ull;
  return hash;
}

/// The bytes as hexadecimal digits, components separated by `/`; f32 elements as one canonical number each.
std::string full_text(const HostValue& value) {
  std::string text;
  size_t index = 0;
  for (const PartLayout& part : part_layouts(value.type)) {
    if (index > 0) text += '/';
    if (part.dtype == DType::f32)
      for (int64_t i = 0; i < part.bytes / 4; ++i)
        text += fmt::format("{}{:08x}", i > 0 ? "," : "", canonical_f32(value.data<uint32_t>(index)[i]));
    else
      for (const std::byte b : value.parts[index]) text += fmt::format("{:02x}", static_cast<unsigned>(b));
    ++index;
  }
  return text;
}

bool is_small(const HostValue& value) {
  size_t bytes = 0;
  for (const auto& part : value.parts) bytes += part.size();
  // csr memory behind the last entry is free: only its digest says what it holds.
  return bytes <= kFullBytes && value.type.dtype != DType::csr;
}

std::string parameters_of(const std::string& line) { return line.substr(0, line.find(" | ")); }

std::map<Op, std::vector<CaseParameters>> cases_by_op() {
  std::map<Op, std::vector<CaseParameters>> groups;
  for (CaseParameters& p : golden_cases()) groups[p.op].push_back(std::move(p));
  return groups;
}

}  // namespace

std::string golden_line(Backend& backend, Backend& maker, const CaseParameters& parameters) {
  const Case c = build_case(parameters, maker);
  std::string line = fmt::format("{} | in {:016x} | out", to_string(parameters), combined_digest(c.inputs));
  std::string full;
  for (const HostValue& value : run_case(backend, c)) {
    line += fmt::format(" {:016x}", digest_value(value));
    full += " " + (is_small(value) ? full_text(value) : "-");
  }
  return line + " | full" + full;
}

GoldenReport check_golden_ops(Backend& backend, Backend& maker, const std::string& directory) {
  GoldenReport report;
  for (const auto& [op, cases] : cases_by_op()) {
    const std::filesystem::path path = file_of(directory, op);
    std::map<std::string, std::string> stored;
    for (const std::string& line : read_golden_lines(path.string())) stored[parameters_of(line)] = line;
    for (const CaseParameters& p : cases) {
      ++report.rows;
      const std::string line = golden_line(backend, maker, p);
      const auto it = stored.find(parameters_of(line));
      if (it == stored.end()) {
        report.differences.push_back(fmt::format("{}: no line for `{}`", path.string(), to_string(p)));
        continue;
      }
      if (it->second != line)
        report.differences.push_back(fmt::format("{}:\n  stored   {}\n  computed {}", path.string(), it->second, line));
      stored.erase(it);
    }
    for (const auto& [parameters, line] : stored)
      report.differences.push_back(fmt::format("{}: no case for the line `{}`", path.string(), parameters));
  }
  return report;
}

GoldenReport check_golden_cases(Backend& backend, const std::string& directory) {
  namespace fs = std::filesystem;
  GoldenReport report;
  const fs::path folder = fs::path(directory) / "cases";
  if (!fs::is_directory(folder)) return report;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".case") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    ++report.rows;
    if (const auto mismatch = replay_case(backend, load_case(path.string())))
      report.differences.push_back(fmt::format("{}: {}", path.string(), to_string(*mismatch)));
  }
  return report;
}

int64_t bless_golden_ops(Backend& scalar, const std::string& directory) {
  int64_t lines = 0;
  for (const auto& [op, cases] : cases_by_op()) {
    const std::filesystem::path path = file_of(directory, op);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path);
    file << "# Written by `fp4sim golden --bless` from the scalar backend; never by hand.\n"
         << golden_version_line() << '\n';
    for (const CaseParameters& p : cases) file << golden_line(scalar, scalar, p) << '\n', ++lines;
    if (!file.flush()) throw Error("golden file " + path.string() + " cannot be written");
  }
  return lines;
}

}  // namespace fp4sim::fuzz
