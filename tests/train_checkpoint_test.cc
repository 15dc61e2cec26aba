// Checkpoints: exact round trips, damaged and foreign files, the parameters' hash.
#include "cli/train/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/io/safetensors.h"
#include "cli/io/sha256.h"
#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::train {
namespace {

using fp4sim::testing::error_of;
using fp4sim::testing::get_file;
using fp4sim::testing::put_file;
using fp4sim::testing::TempFolder;

TrainingState small_state(const std::string& kind = "gpt") {
  TrainingState state;
  state.model.kind = kind;
  state.model.layers = 1;
  state.model.heads = 2;
  state.model.width = 8;
  state.model.hidden = 8;
  state.model.context = 4;
  state.model.vocab = 10;
  state.model.norm_eps = 1e-6;
  state.model = resolved(state.model);
  for (const ParameterInfo& info : parameter_infos(state.model)) {
    state.parameters[info.name] = io::make_f32(info.shape, initial_values(info, state.model, 9));
    state.states["adamw.m/" + info.name] = io::make_tensor(io::FileType::f32, info.shape);
  }
  state.states["ramp/codes"] = io::make_u8({3}, std::vector<uint8_t>{1, 2, 3});
  state.step = 12345678901;
  state.beta1_power = std::pow(0.9, 37);
  state.beta2_power = 0x1.fffffffffffffp-1;
  state.seed = ~uint64_t{0};
  state.data_cursor = 77;
  state.recipe = "name = \"x\"\n# ✓ \"quoted\"\n";
  state.config = "steps = 3\n";
  state.recent_losses = {0.1, -0.0, 1e-310, std::numeric_limits<double>::infinity()};
  state.notes = {{"guard", "calm"}};
  return state;
}

TEST(Checkpoint, every_field_survives_to_the_last_bit) {
  const TempFolder folder;
  for (const char* kind : {"gpt", "llama"}) {
    const TrainingState state = small_state(kind);
    save_checkpoint(folder / "c", state);
    const TrainingState loaded = load_checkpoint(folder / "c");
    EXPECT_EQ(loaded, state) << kind;
    EXPECT_TRUE(std::signbit(loaded.recent_losses[1]));
    save_checkpoint(folder / "again", loaded);
    EXPECT_EQ(get_file(folder / "again"), get_file(folder / "c"));
  }
}

TEST(Checkpoint, nan_parameters_pass_through) {
  const TempFolder folder;
  TrainingState state = small_state();
  state.parameters["final_norm.bias"].as<uint32_t>()[3] = 0xFFC01234u;
  save_checkpoint(folder / "c", state);
  EXPECT_EQ(load_checkpoint(folder / "c"), state);
}

TEST(Checkpoint, a_file_cut_anywhere_or_changed_in_a_parameter_is_rejected_with_its_name) {
  const TempFolder folder;
  save_checkpoint(folder / "c", small_state());
  const std::string whole = get_file(folder / "c");
  for (size_t length = 0; length < whole.size(); length += length < 64 ? 1 : 57) {
    put_file(folder / "cut", whole.substr(0, length));
    EXPECT_NE(error_of<Error>([&] { load_checkpoint(folder / "cut"); }).find(folder / "cut"), std::string::npos)
        << length;
  }
  const auto header = io::parse_safetensors_header(io::bytes_of(whole), "c");
  std::string changed = whole;
  changed[static_cast<size_t>(header.data_offset +
                              io::SafetensorsFile(folder / "c").entry("embedding.weight").begin)] ^= 1;
  put_file(folder / "changed", changed);
  EXPECT_NE(error_of<Error>([&] { load_checkpoint(folder / "changed"); }).find("stored hash"), std::string::npos);
}

/// Rewrites the checkpoint with changed metadata.
std::string rejection_with(const TempFolder& folder, const std::string& key, const std::string& value) {
  save_checkpoint(folder / "c", small_state());
  std::map<std::string, std::string> metadata = io::SafetensorsFile(folder / "c").metadata();
  metadata.erase(key);
  if (!value.empty()) metadata[key] = value;
  const TrainingState state = small_state();
  TensorMap tensors = state.parameters;
  tensors.insert(state.states.begin(), state.states.end());
  io::write_safetensors(folder / "d", tensors, metadata);
  return error_of<Error>([&] { load_checkpoint(folder / "d"); });
}

TEST(Checkpoint, missing_or_damaged_metadata_is_named) {
  const TempFolder folder;
  for (const char* key : {"model", "step", "beta1_power", "beta2_power", "seed", "data_cursor", "recipe", "config",
                          "numerics_version", "parameters_hash", "recent_losses"})
    EXPECT_NE(rejection_with(folder, key, "").find(key), std::string::npos) << key;
  for (const char* key : {"step", "seed", "data_cursor", "numerics_version", "beta1_power", "recent_losses"})
    EXPECT_NE(rejection_with(folder, key, "12z"), "") << key;
  EXPECT_NE(rejection_with(folder, "step", "-1").find("negative"), std::string::npos);
  EXPECT_NE(rejection_with(folder, "step", "99999999999999999999"), "");
  EXPECT_NE(rejection_with(folder, "fp4sim.format", "training-state/2").find("training-state/2"), std::string::npos);
  EXPECT_NE(rejection_with(folder, "fp4sim.format", "").find("not an fp4sim checkpoint"), std::string::npos);
  EXPECT_NE(rejection_with(folder, "parameters_hash", "00"), "");
}

TEST(Checkpoint, damaged_model_descriptions_are_errors) {
  const TempFolder folder;
  save_checkpoint(folder / "c", small_state());
  const std::string model = io::SafetensorsFile(folder / "c").metadata().at("model");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = model;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return rejection_with(folder, "model", text.replace(at, from.size(), to));
  };
  EXPECT_NE(with("\"layers\":1", "\"layers\":16777216").find("16777216 layers"), std::string::npos);
  EXPECT_NE(with("\"layers\":1", "\"layers\":2").find("missing"), std::string::npos);
  EXPECT_NE(with("\"layers\":1", "\"layers\":\"1\""), "");
  EXPECT_NE(with("\"layers\":1,", ""), "");
  EXPECT_NE(with("\"vocab\":10", "\"vocab\":11").find("shape"), std::string::npos);
  EXPECT_NE(with("\"kind\":\"gpt\"", "\"kind\":\"cnn\""), "");
  EXPECT_NE(with("interleaved", "spiral"), "");
  EXPECT_NE(rejection_with(folder, "model", "[]"), "");
  EXPECT_NE(rejection_with(folder, "model", "{"), "");
}

TEST(Checkpoint, parameters_that_are_not_the_models_are_named) {
  const TempFolder folder;
  TrainingState state = small_state();
  state.parameters.erase("final_norm.bias");
  EXPECT_NE(error_of<Error>([&] { save_checkpoint(folder / "c", state); }).find("'final_norm.bias' is missing"),
            std::string::npos);
  state = small_state();
  state.parameters["more"] = io::make_tensor(io::FileType::f32, {1});
  EXPECT_NE(error_of<Error>([&] { save_checkpoint(folder / "c", state); }).find("no parameter 'more'"),
            std::string::npos);
  state = small_state();
  state.parameters["final_norm.bias"] = io::make_tensor(io::FileType::f32, {9});
  EXPECT_NE(error_of<Error>([&] { save_checkpoint(folder / "c", state); }).find("shape (9)"), std::string::npos);
  state.parameters["final_norm.bias"] = io::make_tensor(io::FileType::i32, {8});
  EXPECT_NE(error_of<Error>([&] { save_checkpoint(folder / "c", state); }).find("type I32"), std::string::npos);
  io::write_safetensors(folder / "foreign", {{"a", io::make_tensor(io::FileType::f32, {1})}});
  EXPECT_NE(error_of<Error>([&] { load_checkpoint(folder / "foreign"); }).find("not an fp4sim checkpoint"),
            std::string::npos);
}

TEST(Checkpoint, the_hash_is_sha256_over_the_bytes_in_name_order) {
  const TensorMap parameters = {{"b", io::make_f32({1}, std::vector<float>{1.0f})},
                                {"a", io::make_f32({1}, std::vector<float>{2.0f})}};
  EXPECT_EQ(parameters_hash(parameters), io::sha256_hex(std::string_view("\0\0\0\x40\0\0\x80\x3f", 8)));
  TensorMap negative = parameters;
  negative["a"] = io::make_f32({1}, std::vector<float>{-2.0f});
  EXPECT_NE(parameters_hash(parameters), parameters_hash(negative));
}

}  // namespace
}  // namespace fp4sim::train
