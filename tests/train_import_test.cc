// Import: llama2.c and Hugging Face files give the same model as the checkpoint made from the same weights.
#include "cli/train/import.h"

#include <gtest/gtest.h>

#include "cli/io/safetensors.h"
#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::train {
namespace {

using fp4sim::testing::error_of;
using fp4sim::testing::put_file;
using fp4sim::testing::TempFolder;

ModelConfig small_llama(bool tied) {
  ModelConfig config;
  config.kind = "llama";
  config.layers = 2;
  config.heads = 8;
  config.kv_heads = 4;
  config.width = 32;
  config.hidden = 24;
  config.context = 16;
  config.vocab = 10;
  config.tied_head = tied;
  return resolved(config);
}

TensorMap random_parameters(const ModelConfig& config) {
  TensorMap parameters;
  for (const ParameterInfo& info : parameter_infos(config))
    parameters[info.name] = io::make_f32(info.shape, initial_values(info, config, 3));
  return parameters;
}

std::string raw(const io::HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

/// The llama2.c file of a model, written here from the format's description.
std::string llama2c_of(const ModelConfig& c, const TensorMap& p) {
  const auto vocab = static_cast<int32_t>(c.tied_head ? c.vocab : -c.vocab);
  const int32_t header[7] = {static_cast<int32_t>(c.width),    static_cast<int32_t>(c.hidden),
                             static_cast<int32_t>(c.layers),   static_cast<int32_t>(c.heads),
                             static_cast<int32_t>(c.kv_heads), vocab,
                             static_cast<int32_t>(c.context)};
  std::string file(reinterpret_cast<const char*>(header), sizeof header);
  file += raw(p.at("embedding.weight"));
  for (const char* part :
       {"attn_norm", "attn.q", "attn.k", "attn.v", "attn.o", "ffn_norm", "ffn.gate", "ffn.down", "ffn.up"})
    for (int layer = 0; layer < c.layers; ++layer)
      file += raw(p.at("layers." + std::to_string(layer) + "." + part + ".weight"));
  file += raw(p.at("final_norm.weight"));
  file += std::string(static_cast<size_t>(c.context * c.head_width() / 2 * 2 * 4), '\0');
  return c.tied_head ? file : file + raw(p.at("head.weight"));
}

TensorMap hf_named(const TensorMap& parameters) {
  const std::pair<const char*, const char*> words[] = {
      {"embedding.", "model.embed_tokens."}, {"final_norm.", "model.norm."},   {"head.weight", "lm_head.weight"},
      {"layers.", "model.layers."},          {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
      {"attn.q.", "self_attn.q_proj."},      {"attn.k.", "self_attn.k_proj."}, {"attn.v.", "self_attn.v_proj."},
      {"attn.o.", "self_attn.o_proj."},      {"ffn.gate.", "mlp.gate_proj."},  {"ffn.up.", "mlp.up_proj."},
      {"ffn.down.", "mlp.down_proj."}};
  TensorMap renamed;
  for (const auto& [name, tensor] : parameters) {
    std::string theirs = name;
    for (const auto& [ours, hf] : words)
      if (const size_t at = theirs.find(ours); at != std::string::npos)
        theirs.replace(at, std::string(ours).size(), hf);
    renamed[theirs] = tensor;
  }
  return renamed;
}

TEST(Import, a_llama2c_file_gives_the_models_parameters) {
  const TempFolder folder;
  for (const bool tied : {true, false}) {
    const ModelConfig config = small_llama(tied);
    const TensorMap parameters = random_parameters(config);
    put_file(folder / "m.bin", llama2c_of(config, parameters));
    const LoadedModel model = load_model(folder / "m.bin");
    EXPECT_EQ(model.config, config);
    EXPECT_EQ(model.parameters, parameters);
  }
}

TEST(Import, hugging_face_names_give_the_models_parameters) {
  const TempFolder folder;
  for (const bool tied : {true, false}) {
    const ModelConfig config = small_llama(tied);
    const TensorMap parameters = random_parameters(config);
    TensorMap theirs = hf_named(parameters);
    theirs["model.layers.0.self_attn.rotary_emb.inv_freq"] = io::make_tensor(io::FileType::f32, {2});
    io::write_safetensors(folder / "m.safetensors", theirs, {{"format", "pt"}});
    const LoadedModel model = load_model(folder / "m.safetensors");
    EXPECT_EQ(model.parameters, parameters);
    ModelConfig expected = config;
    expected.rope_style = "half";
    expected.context = 2048;
    EXPECT_EQ(model.config, expected);
  }
}

TEST(Import, half_precision_tensors_become_binary32) {
  const TempFolder folder;
  TensorMap theirs = hf_named(random_parameters(small_llama(true)));
  io::HostTensor norm = io::make_tensor(io::FileType::bf16, {32});
  for (uint16_t& bits : norm.as<uint16_t>()) bits = 0x3FC0;  // 1.5
  theirs["model.norm.weight"] = norm;
  io::HostTensor half = io::make_tensor(io::FileType::f16, {32});
  for (uint16_t& bits : half.as<uint16_t>()) bits = 0xC000;  // −2
  theirs["model.layers.1.input_layernorm.weight"] = half;
  io::write_safetensors(folder / "m.safetensors", theirs);
  const LoadedModel model = load_model(folder / "m.safetensors");
  EXPECT_EQ(model.parameters.at("final_norm.weight").as<float>()[5], 1.5f);
  EXPECT_EQ(model.parameters.at("layers.1.attn_norm.weight").as<float>()[5], -2.0f);
  theirs["model.norm.weight"] = io::make_tensor(io::FileType::i32, {32});
  io::write_safetensors(folder / "m.safetensors", theirs);
  EXPECT_NE(error_of<Error>([&] { load_model(folder / "m.safetensors"); }).find("'model.norm.weight'"),
            std::string::npos);
}

TEST(Import, config_json_gives_what_shapes_cannot) {
  const TempFolder folder;
  io::write_safetensors(folder / "m.safetensors", hf_named(random_parameters(small_llama(true))));
  const auto with = [&](const std::string& json) {
    put_file(folder / "config.json", json);
    return load_model(folder / "m.safetensors").config;
  };
  const ModelConfig config = with(
      R"({"model_type":"llama","num_attention_heads":4,"rope_theta":5e5,"rms_norm_eps":1e-6,"max_position_embeddings":99,)"
      R"("num_key_value_heads":2,"hidden_size":32,"rope_scaling":null,"hidden_act":"silu"})");
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.rope_theta, 5e5);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.context, 99);
  for (const char* json : {"",
                           "[]",
                           "{",
                           R"({"num_attention_heads":3})",
                           R"({"num_attention_heads":0})",
                           R"({"num_attention_heads":-4})",
                           R"({"num_attention_heads":"4"})",
                           R"({"num_attention_heads":32})",
                           R"({"hidden_size":64})",
                           R"({"vocab_size":11})",
                           R"({"num_hidden_layers":3})",
                           R"({"intermediate_size":1})",
                           R"({"model_type":"mistral"})",
                           R"({"rope_scaling":{}})",
                           R"({"hidden_act":"gelu"})",
                           R"({"attention_bias":true})",
                           R"({"rope_theta":-1})",
                           R"({"rms_norm_eps":"x"})",
                           R"({"max_position_embeddings":0})",
                           R"({"head_dim":5})"})
    EXPECT_NE(error_of<Error>([&] { with(json); }), "") << json;
}

TEST(Import, an_fp4sim_checkpoint_brings_its_recipe) {
  const TempFolder folder;
  TrainingState state;
  state.model = small_llama(false);
  state.parameters = random_parameters(state.model);
  state.recipe = "text of the recipe";
  save_checkpoint(folder / "c.safetensors", state);
  const LoadedModel model = load_model(folder / "c.safetensors");
  EXPECT_EQ(model.config, state.model);
  EXPECT_EQ(model.parameters, state.parameters);
  EXPECT_EQ(model.recipe, state.recipe);
}

TEST(Import, missing_foreign_and_misshapen_tensors_are_named) {
  const TempFolder folder;
  const TensorMap good = hf_named(random_parameters(small_llama(true)));
  const auto rejection = [&](const TensorMap& tensors) {
    io::write_safetensors(folder / "m.safetensors", tensors);
    return error_of<Error>([&] { load_model(folder / "m.safetensors"); });
  };
  for (const auto& [name, tensor] : good) {
    TensorMap less = good;
    less.erase(name);
    EXPECT_NE(rejection(less), "") << name;
    TensorMap misshapen = good;
    misshapen[name] = io::make_tensor(io::FileType::f32, {3});
    EXPECT_NE(rejection(misshapen), "") << name;
  }
  TensorMap more = good;
  more["model.layers.0.self_attn.q_proj.bias"] = io::make_tensor(io::FileType::f32, {32});
  EXPECT_NE(rejection(more).find("q_proj.bias"), std::string::npos);
  more = good;
  more["model.layers.7.input_layernorm.weight"] = io::make_tensor(io::FileType::f32, {32});
  EXPECT_NE(rejection(more).find("layers.7"), std::string::npos);
  EXPECT_NE(rejection({}).find("model.embed_tokens.weight"), std::string::npos);
}

TEST(Import, a_vocabulary_must_have_the_models_size) {
  const TempFolder folder;
  const ModelConfig config = small_llama(true);
  put_file(folder / "m.bin", llama2c_of(config, random_parameters(config)));
  put_file(folder / "v.txt", "0\ta\n1\tb\n");
  EXPECT_NE(error_of<Error>([&] { load_model(folder / "m.bin", folder / "v.txt"); }).find("2 pieces"),
            std::string::npos);
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += std::to_string(i) + "\tx" + std::to_string(i) + "\n";
  put_file(folder / "v.txt", lines);
  EXPECT_EQ(load_model(folder / "m.bin", folder / "v.txt").vocab->size(), 10);
  EXPECT_NE(error_of<Error>([&] { load_model(folder / "none.bin"); }).find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace fp4sim::train
