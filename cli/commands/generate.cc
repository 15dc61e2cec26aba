// fp4sim generate: continues a prompt, greedily or by sampling.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/common.h"
#include "cli/commands/inference_options.h"
#include "cli/train/inference.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

constexpr int32_t kLlamaBegin = 1;  // <s> of LLaMA tokenizers
constexpr int64_t kByteValues = 256;

struct Options {
  InferenceOptions inference;
  std::string prompt;
  int64_t tokens = 100;
  double temperature = 0;
  uint64_t seed = 0;
  bool ids = false;
};

/// A byte model starts an empty prompt with a newline; a model with a vocabulary, or whose tokens are no bytes, with
/// <s>.
std::vector<int32_t> prompt_tokens(const Options& o, const train::LoadedModel& model) {
  if (model.vocab) {
    std::vector<int32_t> ids = model.vocab->encode(o.prompt);
    if (ids.empty()) throw UsageError("this vocabulary has no <s>: --prompt must not be empty");
    return ids;
  }
  if (model.config.vocab == kByteValues) {
    if (o.prompt.empty()) return {'\n'};
    std::vector<int32_t> ids;
    for (const char c : o.prompt) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  if (!o.prompt.empty()) throw UsageError("a text prompt for a model whose tokens are no bytes needs --vocab");
  return {kLlamaBegin};
}

std::string text_of(const train::LoadedModel& model, const std::vector<int32_t>& ids) {
  if (model.vocab) return model.vocab->decode(ids);
  std::string text;
  for (const int32_t id : ids) text += static_cast<char>(id);
  return text;
}

void print_ids(const std::vector<int32_t>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) fmt::print("{}{}", i == 0 ? "" : " ", ids[i]);
  fmt::print("\n");
}

void run(const Options& o) {
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    throw UsageError(fmt::format("temperature must be finite and not negative, got {}", o.temperature));
  const train::LoadedModel model = train::load_model(o.inference.checkpoint, o.inference.vocab);
  const std::vector<int32_t> prompt = prompt_tokens(o, model);
  const bool readable = model.vocab || model.config.vocab == kByteValues;
  if (!o.ids && !readable) throw UsageError("the tokens of this model are no bytes: give --vocab FILE or --ids");
  const std::unique_ptr<Backend> backend = make_backend(o.inference.backend, o.inference.threads);
  train::InferenceModel inference(*backend, model, recipe_of(o.inference, model));
  std::vector<int32_t> all = prompt;
  const auto show = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  std::string shown;
  if (!o.ids) shown = text_of(model, all);
  if (!o.prompt.empty()) show(shown);
  train::generate_tokens(inference, prompt, o.tokens, o.temperature, o.seed, [&](int32_t token) {
    all.push_back(token);
    if (o.ids) return;
    const std::string text = text_of(model, all);
    show(std::string_view(text).substr(shown.size()));
    shown = text;
  });
  if (o.ids) {
    print_ids(all);
  } else {
    fmt::print("\n");
  }
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt");
  add_inference_options(*command, o->inference);
  command->add_option("--prompt", o->prompt, "text to continue");
  command->add_option("--tokens", o->tokens, "new tokens")->capture_default_str()->check(CLI::NonNegativeNumber);
  command->add_option("--temperature", o->temperature, "0: always the likeliest token; 1: sample as the model predicts")
      ->capture_default_str();
  command->add_option("--seed", o->seed, "of the sampling")->capture_default_str();
  command->add_flag("--ids", o->ids, "print token ids, the prompt's first, instead of text");
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
