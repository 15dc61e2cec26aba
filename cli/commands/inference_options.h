// What eval and generate share: the model, its recipe and the backend from the command line.
#pragma once

#include <memory>
#include <string>

#include "cli/train/import.h"
#include "cli/train/recipe.h"
#include "reference/contract/backend.h"

namespace CLI {
class App;
}

namespace fp4sim::cli {

struct InferenceOptions {
  std::string checkpoint, vocab, recipe;
  std::string backend = "simd";
  int threads = 0;
};

/// Adds --checkpoint, --vocab, --recipe, --backend and --threads; `options` must outlive the parse.
void add_inference_options(CLI::App& command, InferenceOptions& options);

/// The recipe asked for; without one the recipe that an fp4sim checkpoint was trained with, else fp32.
train::Recipe recipe_of(const InferenceOptions& options, const train::LoadedModel& model);

}  // namespace fp4sim::cli
