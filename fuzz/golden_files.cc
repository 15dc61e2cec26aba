#include "fuzz/golden_files.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/contract/error.h"
#include "reference/contract/numerics_version.h"

namespace fp4sim::fuzz {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 8;  // of nesting; the files have 4

Json parse_json(std::ifstream& file, const std::string& path) {
  return Json::parse(file, [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw Error("golden file " + path + " is nested too deeply");
    return true;
  });
}

GoldenRun run_from(const Json& json) {
  return {json.at("recipe").get<std::string>(), json.at("model").get<std::string>(), json.at("steps").get<int64_t>(),
          json.at("losses").get<std::vector<std::string>>(), json.at("hash").get<std::string>()};
}

}  // namespace

std::string golden_version_line() { return fmt::format("# numerics_version {}", kNumericsVersion); }

std::vector<std::string> read_golden_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error("golden file " + path + " cannot be read");
  std::vector<std::string> lines;
  bool right_version = false;
  for (std::string line; std::getline(file, line);) {
    right_version = right_version || line == golden_version_line();
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  if (!right_version) throw Error("golden file " + path + " has no line `" + golden_version_line() + "`");
  return lines;
}

std::vector<GoldenRun> read_golden_runs(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error("golden file " + path + " cannot be read");
  try {
    const Json all = parse_json(file, path);
    if (all.at("numerics_version") != kNumericsVersion)
      throw Error(fmt::format("golden file {} is of another numerics_version, this program computes {}", path,
                              kNumericsVersion));
    std::vector<GoldenRun> runs;
    for (const Json& run : all.at("runs")) runs.push_back(run_from(run));
    return runs;
  } catch (const Json::exception& e) {
    throw Error("golden file " + path + ": " + e.what());
  }
}

void write_golden_runs(const std::string& path, const std::vector<GoldenRun>& runs) {
  Json rows = Json::array();
  for (const GoldenRun& run : runs)
    rows.push_back({{"recipe", run.recipe},
                    {"model", run.model},
                    {"steps", run.steps},
                    {"losses", run.losses},
                    {"hash", run.hash}});
  std::ofstream file(path);
  file << Json{{"numerics_version", kNumericsVersion}, {"runs", rows}}.dump(1) << '\n';
  if (!file.flush()) throw Error("golden file " + path + " cannot be written");
}

}  // namespace fp4sim::fuzz
