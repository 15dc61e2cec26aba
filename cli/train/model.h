// Models as graphs (training.md): gpt and llama, from a configuration to the forward nodes of one micro-batch.
// This file does not know recipes, gradients or optimizers: passes and autodiff rewrite what it builds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/contract/graph.h"

namespace fp4sim::train {

struct ModelConfig {
  std::string kind = "gpt";  // gpt | llama
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: as many as heads; llama only
  int64_t width = 128;
  int64_t hidden = 0;  // 0: gpt 4·width; llama 8/3·width rounded up to a multiple of 32
  int64_t context = 64;
  int64_t vocab = 256;
  bool tied_head = false;                  // the head is the embedding table; resolved() makes gpt's always so
  std::string rope_style = "interleaved";  // interleaved (llama2.c) | half (HF)
  double rope_theta = 10000;
  double norm_eps = 1e-5;

  int64_t head_width() const { return width / heads; }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Fills kv_heads and hidden where they are 0, and the head's tying by kind; throws UsageError naming sizes that do not
/// fit.
ModelConfig resolved(ModelConfig config);

/// What makes two models of the same parameters compute different functions, as "heads 2 and 4"; empty if nothing does.
/// Llama's context is only the length of its tables and does not count.
std::string first_difference(const ModelConfig& a, const ModelConfig& b);

/// A named size: layers, heads, width, context and the batch that goes with it.
struct Preset {
  const char* name;
  int64_t layers, heads, kv_heads, width, hidden, context, batch;
  const char* note;
};
const std::vector<Preset>& presets();

/// The preset of a name; UsageError listing the names.
const Preset& find_preset(const std::string& name);

struct ParameterInfo {
  std::string name;                                      // "layers.0.attn.q.weight"
  Shape shape;                                           // weights (out, in)
  enum class Init { zero, one, normal, residual } init;  // residual: normal scaled by 1/sqrt(2·layers)
};

/// Every parameter of the model in name order (ascending bytes).
std::vector<ParameterInfo> parameter_infos(const ModelConfig& config);

/// Initial binary32 values of a parameter (numerics.md §9): Philox stream of its name, std 0.02.
std::vector<float> initial_values(const ParameterInfo& info, const ModelConfig& config, uint64_t seed);

/// Parameters and tables added to a graph once, shared by all micro-batches.
struct ModelValues {
  std::map<std::string, ValueId> parameters;
  ValueId rope_cos = kNoValue, rope_sin = kNoValue;  // constants "rope.cos", "rope.sin" (context, head_width/2)
};
ModelValues add_model_values(Graph& graph, const ModelConfig& config);

/// The rotary tables: cos and sin of pos·theta^(−2i/d), (context, d/2) each (numerics.md §9).
std::vector<float> rope_table(const ModelConfig& config, bool sine);

/// One micro-batch of `batch` sequences of `length` tokens.
struct ForwardValues {
  ValueId ids = kNoValue;      // input i32 (batch·length)
  ValueId targets = kNoValue;  // input i32 (batch·length), only with losses
  ValueId logits = kNoValue;   // (batch·length, vocab)
  ValueId losses = kNoValue;   // (batch·length)
};

/// Appends the forward nodes. `suffix` distinguishes the inputs of micro-batches: "ids" + suffix, "targets" + suffix.
/// Products are named "<layer>/fprop" and carry attrs a_role, b_role: x, w or q, k, p, v.
ForwardValues add_forward(Graph& graph, const ModelConfig& config, const ModelValues& values, int64_t batch,
                          int64_t length, const std::string& suffix, bool with_losses);

}  // namespace fp4sim::train
