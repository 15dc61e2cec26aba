// The graph of one training step: forward, backward, passes and optimizer of all micro-batches; and of an evaluation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/train/model.h"
#include "cli/train/recipe.h"

namespace fp4sim::train {

struct StepOptions {
  int64_t batch = 12;  // sequences a micro-batch
  int64_t micro_batches = 1;
  double weight_decay = 0.1;  // on matrices only: norms, biases are not decayed
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;
  bool clip = false;  // StepInfo::clip_norm counts
};

/// How far the pipeline goes: `fp4sim graph --stage` prints any of them.
enum class Stage { forward, backward, qdq, estimators, packed, optimizer };
inline constexpr const char* kStageNames[] = {"forward", "backward", "qdq", "estimators", "packed", "optimizer"};

struct TrainingStep {
  Graph graph;
  std::vector<ValueId> ids, targets;  // by micro-batch
  ValueId step = kNoValue;
  ValueId loss = kNoValue;                   // scalar: mean over all rows of the step
  ValueId grad_norm = kNoValue;              // scalar, only with the optimizer
  std::map<std::string, ValueId> gradients;  // by parameter name, summed over micro-batches
};

/// Builds the step. `keep_gradients`: the gradients are results that can be read after a run.
TrainingStep build_training_step(const ModelConfig& config, const Recipe& recipe, const StepOptions& options,
                                 Stage until = Stage::optimizer, bool keep_gradients = false);

struct EvaluationStep {
  Graph graph;
  ValueId ids = kNoValue, targets = kNoValue;  // targets only with losses
  ValueId step = kNoValue;
  ValueId losses = kNoValue;  // (batch·length), only with losses
  ValueId logits = kNoValue;  // (batch·length, vocab); a result only without losses
};

/// The forward pass under a recipe's fprop places.
EvaluationStep build_evaluation_step(const ModelConfig& config, const Recipe& recipe, int64_t batch, int64_t length,
                                     bool with_losses);

}  // namespace fp4sim::train
