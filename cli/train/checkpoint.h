// Checkpoints: everything a bit-exact resume needs, as one safetensors file that is replaced atomically.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/io/host_tensor.h"
#include "cli/train/model.h"
#include "reference/contract/numerics_version.h"

namespace fp4sim::train {

using TensorMap = std::map<std::string, io::HostTensor>;

/// The state between two steps.
struct TrainingState {
  ModelConfig model;
  TensorMap parameters;    // F32, exactly parameter_infos(model)
  TensorMap states;        // optimizer and method states, "<kind>/<name>"
  int64_t step = 0;        // steps done
  double beta1_power = 1;  // P_t of AdamW (numerics.md §9); skipped steps leave it unchanged
  double beta2_power = 1;
  uint64_t seed = 0;
  int64_t data_cursor = 0;  // micro-batch rows drawn from the training data so far
  std::string recipe;       // the recipe's text
  std::string config;       // the run's config.toml
  int64_t numerics_version = kNumericsVersion;
  std::vector<double> recent_losses;         // what the final report averages
  std::map<std::string, std::string> notes;  // further text by name (guard, schedule, loss scale)

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// Writes the state; the same state gives the same bytes. Throws Error where the parameters are not the model's.
void save_checkpoint(const std::string& path, const TrainingState& state);

/// Reads and checks a checkpoint. Throws Error naming the file where it is missing, truncated, no fp4sim checkpoint, of
/// another layout version, or where its parameters are not those of its model.
TrainingState load_checkpoint(const std::string& path);

/// True if the metadata is that of an fp4sim checkpoint (of any layout version).
bool is_checkpoint(const std::map<std::string, std::string>& metadata);

/// SHA-256 over the parameters' bytes in name order (ascending bytes), 64 hexadecimal digits: equal hashes mean
/// bit-equal runs.
std::string parameters_hash(const TensorMap& parameters);

/// Throws Error beginning with `origin` where the parameters are not exactly parameter_infos(model): a name is missing
/// or foreign, a type is not F32, or a shape differs.
void require_parameters(const ModelConfig& model, const TensorMap& parameters, const std::string& origin);

}  // namespace fp4sim::train
