// fp4sim eval: mean negative log-likelihood and perplexity of a model on a file, on token ids, or on its own validation
// data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/common.h"
#include "cli/commands/inference_options.h"
#include "cli/io/files.h"
#include "cli/train/corpus.h"
#include "cli/train/inference.h"
#include "cli/train/settings.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  InferenceOptions inference;
  std::string data, tokens;
  double val_fraction = 1;
  int64_t context = 0, batch = 0;
  bool json = false;
};

/// The run's settings inside an fp4sim checkpoint.
train::Settings settings_of(const Options& o, const train::LoadedModel& model) {
  train::Settings settings;
  train::from_toml(model.run_config, o.inference.checkpoint + " (config)", settings);
  return settings;
}

train::TokenData run_data(const train::Settings& s) {
  if (!s.data.empty()) return train::load_tokens(s.data, s.val_fraction, s.model.context);
  return train::split_tokens(train::corpus_text(s.seed, s.corpus_bytes), s.val_fraction, s.model.context,
                             "the generated corpus");
}

/// The text to score: all of it, or its last part.
train::TokenData file_data(const Options& o, const train::LoadedModel& model, int64_t context) {
  const std::string text = io::read_text_file(o.data);
  if (!(o.val_fraction > 0 && o.val_fraction <= 1))
    throw UsageError(fmt::format("val-fraction must be in (0, 1], got {}", o.val_fraction));
  train::TokenData data;
  data.name = o.data;
  if (model.vocab) {
    data.tokens = model.vocab->encode(text);
  } else {
    for (const char c : text) data.tokens.push_back(static_cast<uint8_t>(c));
  }
  const auto size = static_cast<int64_t>(data.tokens.size());
  data.train_size = size - static_cast<int64_t>(o.val_fraction * static_cast<double>(size));
  if (data.validation_size() < context + 1)
    throw Error(fmt::format("{}: {} tokens to score, context {} needs at least {}", o.data, data.validation_size(),
                            context, context + 1));
  return data;
}

/// A list of token ids may be shorter than the context: it is one sequence.
train::TokenData data_of(const Options& o, const train::LoadedModel& model, int64_t context) {
  if (!o.data.empty() && !o.tokens.empty()) throw UsageError("--data and --tokens exclude each other");
  if (!o.tokens.empty()) return train::load_token_ids(o.tokens, model.config.vocab);
  if (!o.data.empty()) return file_data(o, model, context);
  if (model.run_config.empty()) throw UsageError("an imported model needs --data or --tokens");
  return run_data(settings_of(o, model));
}

void run(const Options& o) {
  const train::LoadedModel model = train::load_model(o.inference.checkpoint, o.inference.vocab);
  const train::Recipe recipe = recipe_of(o.inference, model);
  const int64_t context = o.context > 0 ? o.context : model.config.context;
  const train::TokenData data = data_of(o, model, context);
  const int64_t own_batch = model.run_config.empty() ? 1 : settings_of(o, model).step.batch;
  const std::unique_ptr<Backend> backend = make_backend(o.inference.backend, o.inference.threads);
  train::InferenceModel inference(*backend, model, recipe);
  const train::Evaluation result = inference.evaluate(data, context, o.batch > 0 ? o.batch : own_batch);
  if (!std::isfinite(result.nll))
    throw Error(fmt::format("{}: the loss over {} tokens is {}", o.inference.checkpoint, result.tokens, result.nll));
  if (o.json) {
    const nlohmann::ordered_json j{{"nll", result.nll},
                                   {"ppl", result.perplexity()},
                                   {"tokens", result.tokens},
                                   {"recipe", recipe.name},
                                   {"data", data.name}};
    fmt::print("{}\n", j.dump());
    return;
  }
  fmt::print("nll={:.6f} ppl={:.6f} tokens={} recipe={}\n", result.nll, result.perplexity(), result.tokens,
             recipe.name);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Score a model: nats a token and perplexity");
  add_inference_options(*command, o->inference);
  command->add_option("--data", o->data,
                      "file of bytes to score (default: the validation data of the checkpoint's run)");
  command->add_option("--tokens", o->tokens, "file of token ids to score");
  command->add_option("--val-fraction", o->val_fraction, "last part of --data that is scored")->capture_default_str();
  command->add_option("--context", o->context, "tokens a window (0: the model's context)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--batch", o->batch, "windows at a time (0: as in the checkpoint's run, else 1)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", o->json, "one JSON object");
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
