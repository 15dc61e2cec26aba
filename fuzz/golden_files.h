// The golden files as text: what golden.h and golden_training.h compare with, checked for form before anything is
// computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp4sim::fuzz {

/// The lines of golden/run/ops/OP.txt but its comments. Throws Error where the file is missing or of other numerics.
std::vector<std::string> read_golden_lines(const std::string& path);

/// The comment that names the numerics of a file.
std::string golden_version_line();

/// One run of golden/run/training.json: losses as hexadecimal floats, step by step.
struct GoldenRun {
  std::string recipe, model;
  int64_t steps = 0;
  std::vector<std::string> losses;
  std::string hash;
  friend bool operator==(const GoldenRun&, const GoldenRun&) = default;
};

/// The runs of golden/run/training.json. Throws Error where the file is missing, of other numerics, or not of that
/// form.
std::vector<GoldenRun> read_golden_runs(const std::string& path);

/// Replaces the file. Throws Error where it cannot be written.
void write_golden_runs(const std::string& path, const std::vector<GoldenRun>& runs);

}  // namespace fp4sim::fuzz
