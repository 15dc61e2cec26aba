// Golden training runs: the losses of tiny runs, step by step, and the hash of the parameters at their end.
#pragma once

#include <string>
#include <vector>

#include "cli/train/settings.h"
#include "fuzz/golden.h"

namespace fp4sim::fuzz {

/// A run of preset `tiny` (2 layers, width 64, context 32, batch 4) on the first bytes of the generated corpus.
struct TrainingRun {
  std::string recipe;
  std::string model;  // gpt | llama
  int64_t steps = 0;
};

/// What a run gave: the loss of every step and the SHA-256 over the parameters.
struct TrainingTrace {
  std::vector<double> losses;
  std::string hash;
};

/// The golden runs: every built-in recipe and a few that hold what those leave out, models alternating.
std::vector<TrainingRun> golden_runs();

/// The settings of a run: a small corpus, no evaluations on the way, seed 1.
train::Settings tiny_settings(const TrainingRun& run);

/// Trains and returns the trace.
TrainingTrace trace_training(Backend& backend, const TrainingRun& run);

/// Compares with `directory`/training.json: {"numerics_version", "runs": [{"recipe", "model", "steps", "losses": [hex
/// floats], "hash"}]}.
GoldenReport check_golden_training(Backend& backend, const std::string& directory);

/// Writes the file from the scalar backend's runs; returns their number.
int64_t bless_golden_training(Backend& scalar, const std::string& directory);

}  // namespace fp4sim::fuzz
