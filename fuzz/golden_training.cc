#include "fuzz/golden_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/train/checkpoint.h"
#include "cli/train/trainer.h"
#include "fuzz/golden_files.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

constexpr int64_t kSteps = 10;
constexpr int64_t kCorpusBytes = 20000;
constexpr uint64_t kSeed = 1;

/// What the built-in recipes leave out: the other estimators, a soft forward value, sr8 with sr34, tiles, rotations.
struct GoldenRecipe {
  const char* name;
  const char* toml;
};
constexpr GoldenRecipe kGoldenRecipes[] = {
    {"golden-estimators", R"toml(
[fprop]
x = { spec = "e2m1:b32:e8m0/rceil", estimator = "ewgs(0.1)" }
w = { spec = "e2m1:b32:e8m0/opt", estimator = "dsq(0.2)" }
[dgrad]
dy = "mxfp4:sr8+sr34"
w = "mxfp4"
[wgrad]
dy = "mxfp4:sr8+sr34"
x = "mxfp4:sr8+sr34"
)toml"},
    {"golden-soft-forward", R"toml(
[fprop]
x = { spec = "e1m2:b32:e8m0/floor", estimator = "quest" }
w = { spec = "mxfp4", estimator = "soft(beta=20,forward=soft)" }
)toml"},
    {"golden-tiles", R"toml(
[fprop]
x = "nvfp4"
w = "e2m1:2d16:e4m3/te"
[dgrad]
dy = "e2m1:b16:e4m3/exact:sr32"
w = "e2m1:2d16:e4m3/te"
[wgrad]
dy = "nvfp4:sr32+had(16,philox)"
x = "nvfp4+had(16,philox)"
)toml"},
};

train::Recipe recipe_of(const TrainingRun& run) {
  for (const GoldenRecipe& r : kGoldenRecipes)
    if (run.recipe == r.name) return train::parse_recipe(r.toml, r.name);
  return train::load_recipe(run.recipe);
}

std::string file_of(const std::string& directory) {
  return (std::filesystem::path(directory) / "training.json").string();
}

GoldenRun golden_run(const TrainingRun& run, const TrainingTrace& trace) {
  GoldenRun row{run.recipe, run.model, run.steps, {}, trace.hash};
  for (const double loss : trace.losses) row.losses.push_back(fmt::format("{:a}", loss));
  return row;
}

/// What differs between a stored and a computed run, or an empty text.
std::string difference(const GoldenRun& stored, const GoldenRun& computed) {
  if (stored == computed) return "";
  const std::vector<std::string>&a = stored.losses, &b = computed.losses;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i]) return fmt::format("loss of step {}: stored {}, computed {}", i + 1, a[i], b[i]);
  return fmt::format("{} steps with hash {} stored, {} steps with hash {} computed", a.size(), stored.hash, b.size(),
                     computed.hash);
}

}  // namespace

std::vector<TrainingRun> golden_runs() {
  std::vector<TrainingRun> runs;
  const auto add = [&](const std::string& recipe) {
    runs.push_back({recipe, runs.size() % 2 == 0 ? "gpt" : "llama", kSteps});
  };
  for (const std::string& recipe : train::recipe_names()) add(recipe);
  for (const GoldenRecipe& r : kGoldenRecipes) add(r.name);
  return runs;
}

train::Settings tiny_settings(const TrainingRun& run) {
  const train::Preset& preset = train::find_preset("tiny");
  train::Settings s;
  s.recipe = run.recipe;
  s.model.kind = run.model;
  s.model.layers = preset.layers;
  s.model.heads = preset.heads;
  s.model.kv_heads = preset.kv_heads;
  s.model.width = preset.width;
  s.model.hidden = preset.hidden;
  s.model.context = preset.context;
  s.step.batch = preset.batch;
  s.schedule.steps = run.steps;
  s.corpus_bytes = kCorpusBytes;
  s.seed = kSeed;
  train::check(s);
  return s;
}

TrainingTrace trace_training(Backend& backend, const TrainingRun& run) {
  const train::Settings settings = tiny_settings(run);
  train::Trainer trainer(backend, settings, recipe_of(run));
  TrainingTrace trace;
  for (int64_t i = 0; i < run.steps; ++i) trace.losses.push_back(trainer.advance().loss);
  trace.hash = train::parameters_hash(trainer.state().parameters);
  return trace;
}

GoldenReport check_golden_training(Backend& backend, const std::string& directory) {
  const std::string path = file_of(directory);
  const std::vector<GoldenRun> stored = read_golden_runs(path);
  const std::vector<TrainingRun> runs = golden_runs();
  GoldenReport report;
  if (stored.size() != runs.size())
    report.differences.push_back(fmt::format("{}: {} runs stored, {} expected", path, stored.size(), runs.size()));
  for (const TrainingRun& run : runs) {
    ++report.rows;
    const GoldenRun computed = golden_run(run, trace_training(backend, run));
    std::string what = "no such run stored";
    for (const GoldenRun& row : stored)
      if (row.recipe == run.recipe && row.model == run.model) what = difference(row, computed);
    if (!what.empty()) report.differences.push_back(fmt::format("{}: {} {}: {}", path, run.recipe, run.model, what));
  }
  return report;
}

int64_t bless_golden_training(Backend& scalar, const std::string& directory) {
  std::vector<GoldenRun> runs;
  for (const TrainingRun& run : golden_runs()) runs.push_back(golden_run(run, trace_training(scalar, run)));
  std::filesystem::create_directories(directory);
  write_golden_runs(file_of(directory), runs);
  return static_cast<int64_t>(runs.size());
}

}  // namespace fp4sim::fuzz
