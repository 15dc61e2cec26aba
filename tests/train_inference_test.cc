// Inference: losses equal the trainer's, prefixes do not see what is behind them, sampling follows the probabilities.
#include "cli/train/inference.h"

#include <cmath>
#include <limits>

#include "cli/train/corpus.h"
#include "cli/train/trainer.h"
#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/temp_folder.h"
#include "tests/tiny_settings.h"

namespace fp4sim::train {
namespace {

using fp4sim::testing::error_of;
using fp4sim::testing::TempFolder;

LoadedModel small_model(const std::string& kind) {
  LoadedModel model;
  model.config.kind = kind;
  model.config.layers = 1;
  model.config.heads = 2;
  model.config.width = 16;
  model.config.context = 40;
  model.config.vocab = 50;
  model.config = resolved(model.config);
  for (const ParameterInfo& info : parameter_infos(model.config)) {
    std::vector<float> values = initial_values(info, model.config, 5);
    for (float& v : values) v *= 10;  // logits that differ
    model.parameters[info.name] = io::make_f32(info.shape, values);
  }
  return model;
}

TokenData counting_tokens(int64_t count) {
  TokenData data;
  data.name = "tokens";
  for (int64_t i = 0; i < count; ++i) data.tokens.push_back(static_cast<int32_t>(i * i % 47));
  return data;
}

double mean_loss(const std::vector<float>& logits, const std::vector<int32_t>& targets, int64_t vocab) {
  double sum = 0;
  for (size_t t = 0; t < targets.size(); ++t) {
    const float* z = logits.data() + static_cast<int64_t>(t) * vocab;
    double total = 0;
    for (int64_t j = 0; j < vocab; ++j) total += std::exp(static_cast<double>(z[j]));
    sum += std::log(total) - static_cast<double>(z[targets[t]]);
  }
  return sum / static_cast<double>(targets.size());
}

class Inference : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, Inference, ::testing::Values("gpt", "llama"),
                         [](const auto& row) { return row.param; });

TEST_P(Inference, a_prefix_has_the_same_logits_whatever_stands_behind_it) {
  const LoadedModel model = small_model(GetParam());
  const auto backend = simd::make_backend(1);
  InferenceModel inference(*backend, model, load_recipe("mxfp4-ste"));
  const std::vector<int32_t> tokens = counting_tokens(40).tokens;
  const std::vector<float> whole = inference.logits(tokens);
  for (const size_t count : {1, 2, 15, 16, 17, 32, 33, 39}) {
    const std::vector<float> part = inference.logits(std::span(tokens).first(count));
    ASSERT_EQ(part.size(), count * 50);
    EXPECT_EQ(std::memcmp(part.data(), whole.data(), part.size() * 4), 0) << count;
  }
}

TEST_P(Inference, evaluation_is_the_mean_loss_of_the_logits_and_does_not_depend_on_the_batch) {
  const LoadedModel model = small_model(GetParam());
  const auto backend = simd::make_backend(1);
  InferenceModel inference(*backend, model, load_recipe("fp32"));
  const TokenData data = counting_tokens(41);
  const std::vector<int32_t> inputs(data.tokens.begin(), data.tokens.end() - 1);
  const std::vector<int32_t> targets(data.tokens.begin() + 1, data.tokens.end());
  const Evaluation whole = inference.evaluate(data, 40, 1);
  EXPECT_EQ(whole.tokens, 40);
  EXPECT_NEAR(whole.nll, mean_loss(inference.logits(inputs), targets, 50), 1e-5);
  EXPECT_NEAR(whole.perplexity() / std::exp(whole.nll), 1.0, 1e-12);  // relative: with an untied head it is 2.5e8
  const Evaluation windows = inference.evaluate(counting_tokens(100), 7, 1);
  EXPECT_EQ(windows.tokens, 14 * 7);
  for (const int64_t batch : {2, 5, 20})
    EXPECT_EQ(inference.evaluate(counting_tokens(100), 7, batch).nll, windows.nll) << batch;
}

TEST_P(Inference, data_shorter_than_a_window_is_scored_as_one_window) {
  const LoadedModel model = small_model(GetParam());
  const auto backend = simd::make_backend(1);
  InferenceModel inference(*backend, model, load_recipe("fp32"));
  const TokenData data = counting_tokens(11);
  const Evaluation short_data = inference.evaluate(data, 40, 3);
  EXPECT_EQ(short_data.tokens, 10);
  EXPECT_EQ(short_data.nll, inference.evaluate(data, 10, 1).nll);
}

TEST_P(Inference, scalar_and_simd_agree) {
  const LoadedModel model = small_model(GetParam());
  const auto scalar = scalar::make_backend();
  const auto simd = simd::make_backend(2);
  InferenceModel slow(*scalar, model, load_recipe("fp4-dge-occ"));
  InferenceModel fast(*simd, model, load_recipe("fp4-dge-occ"));
  EXPECT_EQ(slow.evaluate(counting_tokens(81), 40, 2).nll, fast.evaluate(counting_tokens(81), 40, 2).nll);
}

TEST_P(Inference, generation_slides_the_window_when_the_context_is_full) {
  const LoadedModel model = small_model(GetParam());
  const auto backend = simd::make_backend(1);
  InferenceModel inference(*backend, model, load_recipe("fp32"));
  const std::vector<int32_t> prompt = counting_tokens(38).tokens;
  std::vector<int32_t> seen;
  const auto greedy = generate_tokens(inference, prompt, 6, 0, 0, [&](int32_t t) { seen.push_back(t); });
  EXPECT_EQ(seen, greedy);
  std::vector<int32_t> all = prompt;
  for (const int32_t token : greedy) {
    const std::vector<int32_t> window(all.end() - std::min<std::ptrdiff_t>(40, std::ssize(all)), all.end());
    const std::vector<float> logits = inference.logits(window);
    EXPECT_EQ(token, choose_token(std::span(logits).last(50), 0, 0, 0));
    all.push_back(token);
  }
  const auto ignore = [](int32_t) {};
  const auto sampled = generate_tokens(inference, prompt, 20, 1, 7, ignore);
  EXPECT_EQ(sampled, generate_tokens(inference, prompt, 20, 1, 7, ignore));
  EXPECT_NE(sampled, generate_tokens(inference, prompt, 20, 1, 8, ignore));
}

TEST_P(Inference, wrong_tokens_and_sizes_are_errors) {
  const LoadedModel model = small_model(GetParam());
  const auto backend = simd::make_backend(1);
  InferenceModel inference(*backend, model, load_recipe("fp32"));
  EXPECT_NE(error_of<Error>([&] { inference.logits({}); }), "");
  EXPECT_NE(error_of<Error>([&] { inference.logits(counting_tokens(41).tokens); }).find("41 tokens"),
            std::string::npos);
  EXPECT_NE(error_of<Error>([&] { inference.logits(std::vector<int32_t>{50}); }).find("50"), std::string::npos);
  EXPECT_NE(error_of<Error>([&] { inference.logits(std::vector<int32_t>{-1}); }), "");
  EXPECT_NE(error_of<Error>([&] { inference.evaluate(counting_tokens(100), 41, 1); }).find("41"), std::string::npos);
  EXPECT_NE(error_of<Error>([&] { inference.evaluate(counting_tokens(1), 10, 1); }), "");
  TokenData foreign = counting_tokens(20);
  foreign.tokens[3] = 50;
  EXPECT_NE(error_of<Error>([&] { inference.evaluate(foreign, 10, 1); }).find("token 50"), std::string::npos);
}

TEST(InferenceRun, a_checkpoints_evaluation_is_the_trainers_own_validation_loss) {
  const TempFolder folder;
  for (const char* recipe : {"fp32", "fp4-direct-tensor", "fp4-dge-occ"}) {
    const Settings s = fp4sim::testing::tiny_settings(recipe, 3, 3);
    const auto backend = simd::make_backend(1);
    Trainer trainer(*backend, s, load_recipe(recipe));
    while (trainer.step() < 3) trainer.advance();
    const double expected = trainer.evaluate(0);
    save_checkpoint(folder / "c.safetensors", trainer.state());
    const LoadedModel model = load_model(folder / "c.safetensors");
    InferenceModel inference(*backend, model, parse_recipe(model.recipe, "checkpoint"));
    const TokenData data = split_tokens(corpus_text(s.seed, s.corpus_bytes), s.val_fraction, 32, "corpus");
    EXPECT_EQ(inference.evaluate(data, 32, 3).nll, expected) << recipe;
  }
}

TEST(ChooseToken, greedy_takes_the_first_maximum_and_never_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose_token(std::vector<float>{1, 3, 3, 2}, 0, 0, 0), 1);
  EXPECT_EQ(choose_token(std::vector<float>{nan, -inf, -2, nan}, 0, 0, 0), 2);
  EXPECT_EQ(choose_token(std::vector<float>{-inf, -inf}, 0, 0, 0), 0);
  EXPECT_EQ(choose_token(std::vector<float>{0, inf, nan}, 1, 0, 0), 1);
  EXPECT_NE(error_of<Error>([&] { choose_token(std::vector<float>{nan, nan}, 0, 0, 0); }), "");
  EXPECT_NE(error_of<Error>([&] { choose_token(std::vector<float>{}, 1, 0, 0); }), "");
}

TEST(ChooseToken, sampling_follows_the_probabilities_at_every_temperature) {
  const std::vector<float> logits = {0.0f, 1.0f, -2.0f, std::numeric_limits<float>::quiet_NaN(), 1.5f};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    double total = 0;
    for (const float z : logits) total += z == z ? std::exp(z / temperature) : 0;
    constexpr int kDraws = 40000;
    std::vector<int> count(logits.size(), 0);
    for (uint64_t n = 0; n < kDraws; ++n) ++count[static_cast<size_t>(choose_token(logits, temperature, 11, n))];
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = logits[i] == logits[i] ? std::exp(logits[i] / temperature) / total : 0;
      EXPECT_NEAR(count[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1e-9) << temperature << " " << i;
    }
  }
  EXPECT_EQ(choose_token(logits, 1e-6, 1, 1), 4);
}

}  // namespace
}  // namespace fp4sim::train
