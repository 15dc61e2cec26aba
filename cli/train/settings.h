// The settings of a training run as one table: command options, config.toml and resume all walk its rows.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cli/train/model.h"
#include "cli/train/schedule.h"
#include "cli/train/training_step.h"

namespace fp4sim::train {

struct Settings {
  std::string recipe = "fp4-dge-occ";
  ModelConfig model;
  StepOptions step;
  Schedule schedule;
  double clip = 0;   // largest gradient norm; 0: no clipping
  std::string data;  // a file of bytes; empty: the generated corpus
  int64_t corpus_bytes = 2000000;
  double val_fraction = 0.1;
  int64_t eval_every = 0;     // steps; 0: only at the end
  int64_t eval_batches = 20;  // of the evaluations on the way; the one at the end reads every window
  int64_t save_every = 0;     // steps; 0: only at the end
  uint64_t seed = 1;
};

/// One row: the option's name (without dashes), where its value lives, what it means.
struct SettingRow {
  const char* name;
  std::variant<std::string*, int64_t*, uint64_t*, double*, bool*> value;
  const char* help;
};
std::vector<SettingRow> setting_rows(Settings& settings);

/// A row's value as config.toml writes it.
std::string value_text(const SettingRow& row);

/// config.toml: every row, then the recipe's own text: everything needed to repeat the run.
std::string to_toml(const Settings& settings, const std::string& recipe_text);

/// Reads what to_toml wrote; UsageError naming origin, line and key. Returns the recipe's text.
std::string from_toml(std::string_view text, const std::string& origin, Settings& settings);

/// The data's path as config.toml keeps it: absolute, so that a run can be resumed from another folder; empty stays.
std::string absolute_data(const std::string& path);

/// Throws UsageError for values out of range, naming the option; completes the model (resolved()) and the data's path.
void check(Settings& settings);

}  // namespace fp4sim::train
