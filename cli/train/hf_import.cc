#include "cli/train/hf_import.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

using Json = nlohmann::json;

struct NamePair {
  const char* theirs;
  const char* ours;
};
constexpr NamePair kModelNames[] = {{"model.embed_tokens.weight", "embedding.weight"},
                                    {"model.norm.weight", "final_norm.weight"}};
/// Behind "model.layers.N." and "layers.N.".
constexpr NamePair kLayerNames[] = {
    {"input_layernorm.weight", "attn_norm.weight"}, {"self_attn.q_proj.weight", "attn.q.weight"},
    {"self_attn.k_proj.weight", "attn.k.weight"},   {"self_attn.v_proj.weight", "attn.v.weight"},
    {"self_attn.o_proj.weight", "attn.o.weight"},   {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn.gate.weight"},    {"mlp.up_proj.weight", "ffn.up.weight"},
    {"mlp.down_proj.weight", "ffn.down.weight"}};
constexpr const char* kHeadName = "lm_head.weight";
constexpr const char* kFirstLayer = "model.layers.0.";

/// The shape of a matrix.
const Shape& matrix_shape(const io::SafetensorsFile& file, const std::string& name) {
  const Shape& shape = file.entry(name).shape;
  if (shape.size() != 2)
    throw Error(fmt::format("{}: tensor '{}' {} is not a matrix", file.path(), name, to_string(shape)));
  return shape;
}

/// config.json beside the safetensors file; an empty object where there is none.
Json read_config_json(const std::string& safetensors_path) {
  const std::string path = (std::filesystem::path(safetensors_path).parent_path() / "config.json").string();
  if (!std::filesystem::exists(path)) return Json::object();
  const std::string text = io::read_text_file(path);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw Error(fmt::format("{}: malformed JSON", path));
  json["fp4sim.path"] = path;
  return json;
}

/// A number of config.json, or `otherwise` where the key is absent or null.
template <class T>
T number_or(const Json& json, const char* key, T otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  const bool fits = std::is_floating_point_v<T> ? found->is_number() : found->is_number_integer();
  if (!fits) throw Error(fmt::format("{}: `{}` is not a number", json.at("fp4sim.path").get<std::string>(), key));
  return found->get<T>();
}

/// The settings of config.json that change what the model computes and that are not computed here.
void reject_other_models(const Json& json) {
  const auto fail = [&](const std::string& what) {
    throw Error(fmt::format("{}: {} is not supported", json.at("fp4sim.path").get<std::string>(), what));
  };
  const auto set = [&](const char* key) { return json.contains(key) && !json.at(key).is_null(); };
  if (set("model_type") && json.at("model_type") != "llama") fail("model_type " + json.at("model_type").dump());
  if (set("hidden_act") && json.at("hidden_act") != "silu") fail("hidden_act " + json.at("hidden_act").dump());
  if (set("rope_scaling")) fail("rope_scaling");
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (set(key) && json.at(key) != false) fail(key);
}

void require_agreement(const Json& json, const char* key, int64_t value) {
  const auto stated = number_or<int64_t>(json, key, value);
  if (stated != value)
    throw Error(fmt::format("{}: `{}` is {}, the tensors have {}", json.at("fp4sim.path").get<std::string>(), key,
                            stated, value));
}

int64_t count_layers(const io::SafetensorsFile& file) {
  int64_t layers = 0;
  while (file.has(fmt::format("model.layers.{}.input_layernorm.weight", layers))) ++layers;
  return layers;
}

}  // namespace

ModelConfig hf_config(const io::SafetensorsFile& file) {
  const Json json = read_config_json(file.path());
  reject_other_models(json);
  const Shape& embedding = matrix_shape(file, kModelNames[0].theirs);
  const Shape& keys = matrix_shape(file, std::string(kFirstLayer) + "self_attn.k_proj.weight");
  ModelConfig config;
  config.kind = "llama";
  config.vocab = embedding[0];
  config.width = embedding[1];
  config.hidden = matrix_shape(file, std::string(kFirstLayer) + "mlp.gate_proj.weight")[0];
  config.layers = count_layers(file);
  config.tied_head = !file.has(kHeadName);
  config.rope_style = "half";
  config.heads = number_or<int64_t>(json, "num_attention_heads",
                                    config.width % 64 == 0 && config.width > 64 ? config.width / 64 : 8);
  if (config.heads < 1 || config.width % config.heads != 0)
    throw Error(fmt::format("{}: width {} does not divide into {} heads", file.path(), config.width, config.heads));
  const int64_t head_width = config.width / config.heads;
  if (head_width == 0 || keys[0] % head_width != 0)
    throw Error(fmt::format("{}: {} key rows do not divide into heads of width {}", file.path(), keys[0], head_width));
  config.kv_heads = keys[0] / head_width;
  config.context = number_or<int64_t>(json, "max_position_embeddings", 2048);
  config.rope_theta = number_or<double>(json, "rope_theta", 10000.0);
  config.norm_eps = number_or<double>(json, "rms_norm_eps", 1e-5);
  if (!(config.rope_theta > 0) || !(config.norm_eps >= 0))
    throw Error(fmt::format("{}: rope_theta {} or rms_norm_eps {} is out of range", file.path(), config.rope_theta,
                            config.norm_eps));
  require_agreement(json, "vocab_size", config.vocab);
  require_agreement(json, "hidden_size", config.width);
  require_agreement(json, "intermediate_size", config.hidden);
  require_agreement(json, "num_hidden_layers", config.layers);
  require_agreement(json, "num_key_value_heads", config.kv_heads);
  require_agreement(json, "head_dim", head_width);
  return config;
}

TensorMap hf_parameters(const io::SafetensorsFile& file, const ModelConfig& config) {
  TensorMap parameters;
  std::set<std::string> used;
  const auto take = [&](const std::string& theirs, const std::string& ours) {
    try {
      parameters[ours] = io::to_f32(file.read(theirs));
    } catch (const Error& error) {
      if (!file.has(theirs)) throw;
      throw Error(fmt::format("{}: tensor '{}': {}", file.path(), theirs, error.what()));
    }
    used.insert(theirs);
  };
  for (const NamePair& row : kModelNames) take(row.theirs, row.ours);
  for (int64_t layer = 0; layer < config.layers; ++layer)
    for (const NamePair& row : kLayerNames)
      take(fmt::format("model.layers.{}.{}", layer, row.theirs), fmt::format("layers.{}.{}", layer, row.ours));
  if (!config.tied_head) take(kHeadName, "head.weight");
  for (const io::TensorEntry& entry : file.tensors())
    if (!used.contains(entry.name) && !entry.name.ends_with("rotary_emb.inv_freq"))
      throw Error(fmt::format("{}: tensor '{}' is not part of a LLaMA model", file.path(), entry.name));
  return parameters;
}

}  // namespace fp4sim::train
