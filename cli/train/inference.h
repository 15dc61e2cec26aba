// Running a loaded model: losses over token windows, logits of a prefix, the choice of the next token.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "cli/train/data.h"
#include "cli/train/executor.h"
#include "cli/train/import.h"
#include "cli/train/recipe.h"
#include "cli/train/training_step.h"

namespace fp4sim::train {

/// Mean negative log-likelihood of a token in nats, and how many tokens were scored.
struct Evaluation {
  double nll = 0;
  int64_t tokens = 0;
  double perplexity() const;  // e^nll
};

/// A model's parameters on a backend, with one compiled plan for each (batch, length) that is asked for.
class InferenceModel {
 public:
  /// Backend and model must outlive this object. The recipe gives the forward products' quantization.
  InferenceModel(Backend& backend, const LoadedModel& model, Recipe recipe);

  /// Scores the validation part in windows of `context` tokens, `batch` at a time, the last batch filled up with its
  /// first window (as a training run does, so equal batches give equal bits also with tensor-wide scales). Data shorter
  /// than one window is scored as one window of what there is. Throws Error where there is no token to score or context
  /// exceeds the model's.
  Evaluation evaluate(const TokenData& data, int64_t context, int64_t batch);

  /// Logits behind every token of a prefix of 1 … context tokens, (tokens, vocab) row-major. The plan's length is the
  /// power of two (at least 16) that holds the prefix, or the context; tokens behind the prefix repeat its last one
  /// and, by causality, are not seen (except by tensor-wide scales).
  std::vector<float> logits(std::span<const int32_t> prefix);

  const ModelConfig& config() const { return model_.config; }

 private:
  struct Prepared {
    EvaluationStep step;
    std::unique_ptr<Executor> executor;
  };
  Prepared& prepare(int64_t batch, int64_t length, bool with_losses);
  void set_inputs(Prepared& prepared, const std::vector<int32_t>& ids, const std::vector<int32_t>* targets);
  int64_t plan_length(int64_t tokens) const;

  const LoadedModel& model_;
  Recipe recipe_;
  Backend& backend_;
  ValueStore store_;
  std::map<std::tuple<int64_t, int64_t, bool>, Prepared> prepared_;
};

/// The next token. Temperature 0: the first of the largest logits. Else token i with probability ∝ e^((logit_i −
/// max)/T), summed in binary64 in ascending i, by 53 random bits of Philox counter n, stream "generate", step 0. NaN
/// logits are never chosen; throws Error where every logit is NaN.
int32_t choose_token(std::span<const float> logits, double temperature, uint64_t seed, uint64_t n);

/// `count` tokens behind the prompt (at least one token), one after the other; a prompt longer than the context is seen
/// through its last `context` tokens. `on_token` sees each new token.
std::vector<int32_t> generate_tokens(InferenceModel& model, std::span<const int32_t> prompt, int64_t count,
                                     double temperature, uint64_t seed, const std::function<void(int32_t)>& on_token);

}  // namespace fp4sim::train
