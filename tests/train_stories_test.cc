// A real trained model from outside: the imported stories260K gives the 256 greedy tokens of a plain float32 program.
#include <cmath>

#include "cli/train/inference.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::train {
namespace {

const std::string kFolder = std::string(FP4SIM_GOLDEN_DIR) + "/spec/stories260K/";

const LoadedModel& stories() {
  static const LoadedModel model = load_model(kFolder + "stories260K.legacy.bin", kFolder + "stories260K_vocab.txt");
  return model;
}

TokenData greedy_tokens() { return load_token_ids(kFolder + "stories260K_greedy256_tokens.txt", 512); }

std::vector<std::unique_ptr<Backend>> backends() {
  std::vector<std::unique_ptr<Backend>> all;
  all.push_back(scalar::make_backend());
  for (const simd::Level level : simd::available_levels()) all.push_back(simd::make_backend(level, 2));
  return all;
}

TEST(Stories260K, the_sizes_are_those_of_the_file) {
  const ModelConfig& c = stories().config;
  EXPECT_EQ(std::tuple(c.width, c.hidden, c.layers, c.heads, c.kv_heads, c.vocab, c.context),
            std::tuple(64, 172, 5, 8, 4, 512, 512));
  EXPECT_TRUE(c.tied_head);
}

// By causality one pass over the reference tokens shows what step-by-step decoding chooses: row t sees tokens 0 … t
// only.
TEST(Stories260K, every_greedy_choice_and_the_mean_nll_are_the_reference_programs_on_every_backend) {
  const TokenData data = greedy_tokens();
  ASSERT_EQ(data.tokens.size(), 256u);
  for (const auto& backend : backends()) {
    InferenceModel inference(*backend, stories(), load_recipe("fp32"));
    const std::vector<float> logits = inference.logits(data.tokens);
    for (size_t t = 0; t < 255; ++t)
      ASSERT_EQ(choose_token(std::span(logits).subspan(t * 512, 512), 0, 0, 0), data.tokens[t + 1])
          << backend->name() << " " << t;
    // the reference's mean is over 256 choices: the last one follows the last token of the file
    TokenData choices = data;
    choices.tokens.push_back(choose_token(std::span(logits).last(512), 0, 0, 0));
    const Evaluation evaluation = inference.evaluate(choices, 512, 1);
    EXPECT_EQ(evaluation.tokens, 256);
    EXPECT_NEAR(evaluation.nll, 0.4573, 1e-4) << backend->name();
  }
}

TEST(Stories260K, decoding_step_by_step_gives_the_tokens_and_they_spell_a_story) {
  const TokenData data = greedy_tokens();
  const auto backend = simd::make_backend(2);
  InferenceModel inference(*backend, stories(), load_recipe("fp32"));
  const auto generated = generate_tokens(inference, std::span(data.tokens).first(1), 40, 0, 0, [](int32_t) {});
  EXPECT_TRUE(std::equal(generated.begin(), generated.end(), data.tokens.begin() + 1));
  EXPECT_TRUE(
      stories().vocab->decode(data.tokens).starts_with("Once upon a time, there was a little girl named Lily."));
}

}  // namespace
}  // namespace fp4sim::train
