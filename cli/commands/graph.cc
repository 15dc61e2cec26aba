// fp4sim graph: the graph of one training step at any stage of the passes, as text or DOT.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/model_options.h"
#include "cli/train/recipe.h"
#include "cli/train/settings.h"
#include "cli/train/training_step.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  train::Settings settings;
  SettingOptions given;
  std::string stage = "optimizer";
  bool dot = false;
};

train::Stage parse_stage(const std::string& name) {
  std::string names;
  for (size_t i = 0; i < std::size(train::kStageNames); ++i) {
    if (name == train::kStageNames[i]) return static_cast<train::Stage>(i);
    names += (names.empty() ? "" : ", ") + std::string(train::kStageNames[i]);
  }
  throw UsageError("unknown stage `" + name + "` (" + names + ")");
}

void run(Options& o) {
  apply_preset(o.given, o.settings);
  check_given(o.given, o.settings);
  train::check(o.settings);
  const train::Recipe recipe = train::load_recipe(o.settings.recipe);
  const train::TrainingStep step =
      train::build_training_step(o.settings.model, recipe, o.settings.step, parse_stage(o.stage));
  const std::string text = o.dot ? to_dot(step.graph) : to_text(step.graph);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_graph_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("graph", "Print the graph of a training step after any pass");
  command->add_option("--stage", o->stage, "forward, backward, qdq, estimators, packed or optimizer");
  command->add_flag("--dot", o->dot, "Graphviz DOT instead of text");
  o->given =
      add_setting_options(*command, o->settings,
                          {"recipe", "model", "layers", "heads", "kv-heads", "width", "hidden", "context", "vocab",
                           "tied-head", "rope-style", "batch", "micro-batches", "clip", "weight-decay"});
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
