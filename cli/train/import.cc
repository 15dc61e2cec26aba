#include "cli/train/import.h"

#include <fmt/format.h>

#include <cmath>

#include <cstring>

#include "cli/io/llama2c.h"
#include "cli/io/safetensors.h"
#include "cli/train/hf_import.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

/// resolved(), with the file named where the sizes do not fit.
ModelConfig resolved_of(const ModelConfig& config, const std::string& path) {
  try {
    return resolved(config);
  } catch (const UsageError& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

struct Llama2cName {
  const char* stacked;  // (L, …) in the file
  const char* name;     // behind "layers.N."
};
constexpr Llama2cName kLlama2cLayerNames[] = {
    {"rms_att", "attn_norm.weight"}, {"wq", "attn.q.weight"},   {"wk", "attn.k.weight"},
    {"wv", "attn.v.weight"},         {"wo", "attn.o.weight"},   {"rms_ffn", "ffn_norm.weight"},
    {"w1", "ffn.gate.weight"},       {"w2", "ffn.down.weight"}, {"w3", "ffn.up.weight"}};

/// Layer `index` of a stacked tensor.
io::HostTensor slice(const io::HostTensor& stacked, int64_t index) {
  const Shape shape(stacked.shape.begin() + 1, stacked.shape.end());
  io::HostTensor part = io::make_tensor(stacked.type, shape);
  std::memcpy(part.bytes.data(), stacked.bytes.data() + static_cast<size_t>(index) * part.bytes.size(),
              part.bytes.size());
  return part;
}

LoadedModel import_llama2c(const std::string& path) {
  io::Llama2cFile file = io::read_llama2c(path);
  const io::Llama2cHeader& h = file.header;
  LoadedModel model;
  model.config.kind = "llama";
  model.config.layers = h.layers;
  model.config.heads = h.heads;
  model.config.kv_heads = h.kv_heads;
  model.config.width = h.width;
  model.config.hidden = h.hidden;
  model.config.context = h.context;
  model.config.vocab = h.vocab;
  model.config.tied_head = h.tied_head;
  model.config.rope_style = "interleaved";
  model.config = resolved_of(model.config, path);
  for (const Llama2cName& row : kLlama2cLayerNames)
    for (int64_t layer = 0; layer < h.layers; ++layer)
      model.parameters[fmt::format("layers.{}.{}", layer, row.name)] = slice(file.tensors.at(row.stacked), layer);
  model.parameters["embedding.weight"] = std::move(file.tensors.at("tok_emb"));
  model.parameters["final_norm.weight"] = std::move(file.tensors.at("rms_final"));
  if (!h.tied_head) model.parameters["head.weight"] = std::move(file.tensors.at("wcls"));
  return model;
}

LoadedModel import_checkpoint(const std::string& path) {
  TrainingState state = load_checkpoint(path);
  LoadedModel model;
  model.config = state.model;
  model.parameters = std::move(state.parameters);
  model.recipe = std::move(state.recipe);
  model.run_config = std::move(state.config);
  model.seed = state.seed;
  model.step = static_cast<uint32_t>(state.step);
  return model;
}

LoadedModel load_by_kind(const std::string& path) {
  if (path.ends_with(".bin")) return import_llama2c(path);
  const io::SafetensorsFile file(path);
  if (is_checkpoint(file.metadata())) return import_checkpoint(path);
  LoadedModel model;
  model.config = resolved_of(hf_config(file), path);
  model.parameters = hf_parameters(file, model.config);
  return model;
}

void require_finite(const TensorMap& parameters, const std::string& origin) {
  for (const auto& [name, tensor] : parameters)
    for (const float value : tensor.as<float>())
      if (!std::isfinite(value)) throw Error(fmt::format("{}: {} holds a value that is not finite", origin, name));
}

}  // namespace

LoadedModel load_model(const std::string& path, const std::string& vocab_path) {
  LoadedModel model = load_by_kind(path);
  require_parameters(model.config, model.parameters, path);
  require_finite(model.parameters, path);
  if (!vocab_path.empty()) {
    model.vocab = io::read_vocab(vocab_path);
    if (model.vocab->size() != model.config.vocab)
      throw Error(fmt::format("{}: {} pieces, but the model {} has a vocabulary of {}", vocab_path, model.vocab->size(),
                              path, model.config.vocab));
  }
  return model;
}

}  // namespace fp4sim::train
