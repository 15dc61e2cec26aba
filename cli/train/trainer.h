// The training run as a library: parameters, data, steps, evaluations, metrics, checkpoints. Prints nothing.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/train/checkpoint.h"
#include "cli/train/data.h"
#include "cli/train/executor.h"
#include "cli/train/recipe.h"
#include "cli/train/settings.h"

namespace fp4sim::train {

/// What one step reports.
struct StepReport {
  int64_t step = 0;  // steps done, 1-based
  double loss = 0;   // mean over the step's rows, nats per token
  double lr = 0;
  double grad_norm = 0;
  double seconds = 0;  // of this step alone
  std::optional<double> val_loss;
};

/// What a run reports at its end.
struct TrainResult {
  double train_loss = 0;          // mean loss of the last min(50, steps) steps
  double val_loss = 0;            // over every validation window; NaN without validation data
  double tokens_per_s = 0;        // training tokens over the time of the steps alone
  std::optional<double> entropy;  // nats per byte of the generated corpus: the floor of the loss
  std::string hash;               // SHA-256 over the parameters in name order
};

class Trainer {
 public:
  /// Prepares a run on a backend. The recipe comes parsed, since a resumed run takes it from its config.
  Trainer(Backend& backend, Settings settings, Recipe recipe);

  /// Parameters of a checkpoint with the same model, everything else new (--init). Throws Error where shapes differ.
  void initialize_from(const TensorMap& parameters, const std::string& origin);
  /// Continues bit-exactly from a saved state (--resume). Throws Error where the state belongs to another run.
  void restore(const TrainingState& state);

  int64_t step() const { return step_; }
  /// One optimizer step. Throws Error where the loss is not finite: the parameters on disk stay those of the last
  /// checkpoint. `next_follows`: nobody looks at the parameters before the next call, so that a backend that runs ahead
  /// may start the next step before it has this one's results.
  StepReport advance(bool next_follows = false);
  /// Mean loss over the first `batches` batches of validation windows; 0: all of them.
  double evaluate(int64_t batches);
  TrainingState state() const;
  /// The end of the run; `val_loss` as evaluate(0) gives it.
  TrainResult result(double val_loss) const;

  const Settings& settings() const { return settings_; }
  const Recipe& recipe() const { return recipe_; }
  int64_t parameter_count() const;
  int64_t memory_bytes() const;
  int64_t tokens_a_step() const;
  /// Runs the steps node by node from now on and sums their times by op (--profile).
  void profile() { times_.emplace(); }
  const std::optional<OpTimes>& times() const { return times_; }
  std::optional<double> entropy() const { return entropy_; }

 private:
  /// A step that the backend has been given.
  struct StartedStep {
    double lr;
    float loss, grad_norm;
    std::unique_ptr<Download> downloads[2];
  };

  void start_step();
  void set_step_info(int64_t step);
  void upload_tensors(const TensorMap& tensors);
  TensorMap download_tensors(std::initializer_list<const char*> prefixes) const;

  Backend& backend_;
  Settings settings_;
  Recipe recipe_;
  std::optional<double> entropy_;
  TokenData data_;
  std::string data_hash_;  // SHA-256 of the tokens: a resumed run must read the same data
  ValueStore store_;
  TrainingStep training_;
  EvaluationStep evaluation_;
  std::unique_ptr<Executor> train_executor_, evaluation_executor_;  // the latter only with validation data
  int64_t step_ = 0;
  double beta1_power_ = 1, beta2_power_ = 1;  // fl64 products, numerics.md §9; of the steps that were started
  std::list<StartedStep> started_;            // whose results nobody has read
  double seconds_ = 0;
  int64_t timed_steps_ = 0;
  std::vector<double> last_losses_;
  std::optional<OpTimes> times_;
};

/// Uploads the constants of a model's graphs (the rotary tables) that the store holds.
void upload_constants(ValueStore& store, const ModelConfig& config);

/// Runs to the end of the schedule: evaluations and checkpoints as the settings say, metrics.jsonl and config.toml in
/// `out` (empty: nothing is written). `on_step` sees every report.
TrainResult run_training(Trainer& trainer, const std::string& out,
                         const std::function<void(const StepReport&)>& on_step);

}  // namespace fp4sim::train
