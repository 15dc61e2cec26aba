// Settings of a training run of milliseconds: one layer, width 32, 32 tokens, 3000 bytes of the generated corpus.
#pragma once

#include <string>

#include "cli/train/settings.h"

namespace fp4sim::testing {

inline train::Settings tiny_settings(const std::string& recipe, int64_t batch, int64_t steps) {
  train::Settings s;
  s.recipe = recipe;
  s.model.layers = 1;
  s.model.width = 32;
  s.model.heads = 2;
  s.model.context = 32;
  s.step.batch = batch;
  s.corpus_bytes = 3000;
  s.schedule.steps = steps;
  return s;
}

}  // namespace fp4sim::testing
