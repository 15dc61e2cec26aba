#include "cli/commands/inference_options.h"

#include <CLI/CLI.hpp>

#include "cli/commands/common.h"

namespace fp4sim::cli {

void add_inference_options(CLI::App& command, InferenceOptions& options) {
  command
      .add_option("--checkpoint", options.checkpoint,
                  "fp4sim checkpoint, safetensors with Hugging Face LLaMA names, or llama2.c legacy .bin")
      ->required();
  command.add_option("--vocab", options.vocab, "file of `id<TAB>piece` lines; default: tokens are bytes");
  command.add_option("--recipe", options.recipe,
                     "recipe of the forward pass (default: the checkpoint's own; fp32 for imported models)");
  command.add_option("--backend", options.backend, kBackendHelp)->capture_default_str();
  command.add_option("--threads", options.threads, "CPU threads (0: all cores)")->capture_default_str();
}

train::Recipe recipe_of(const InferenceOptions& options, const train::LoadedModel& model) {
  if (!options.recipe.empty()) return train::load_recipe(options.recipe);
  if (!model.recipe.empty()) return train::parse_recipe(model.recipe, options.checkpoint + " (recipe)");
  return train::load_recipe("fp32");
}

}  // namespace fp4sim::cli
