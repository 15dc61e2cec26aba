// fp4sim train: a training run with progress, metrics, checkpoints and bit-exact resume.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/common.h"
#include "cli/commands/model_options.h"
#include "cli/commands/progress.h"
#include "cli/io/files.h"
#include "cli/train/checkpoint.h"
#include "cli/train/import.h"
#include "cli/train/trainer.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  train::Settings settings;
  SettingOptions given;
  std::string config, resume, init, out;
  std::string backend = "simd";
  int threads = 0;
  bool quiet = false, json = false, profile = false;
};

/// A resumed or repeated run takes its settings from config.toml; an option that says otherwise is an error.
train::Recipe settings_from_file(const Options& o, const std::string& path, train::Settings& settings) {
  train::Settings asked = o.settings;
  asked.data = train::absolute_data(asked.data);
  const std::string recipe_text = train::from_toml(io::read_text_file(path), path, settings);
  const auto stored = train::setting_rows(settings), typed = train::setting_rows(asked);
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!o.given.given(stored[i].name) || train::value_text(stored[i]) == train::value_text(typed[i])) continue;
    throw UsageError(fmt::format("--{} is {} in {}, not {} (a changed run starts anew, with --init)", stored[i].name,
                                 train::value_text(stored[i]), path, train::value_text(typed[i])));
  }
  return train::parse_recipe(recipe_text, path + " (recipe-text)");
}

train::Recipe prepare(Options& o) {
  if (!o.resume.empty() && (!o.init.empty() || !o.config.empty()))
    throw UsageError("--resume goes without --init and --config");
  if (!o.resume.empty()) {
    if (!o.out.empty() && o.out != o.resume) throw UsageError("--resume continues in its own folder: leave --out away");
    o.out = o.resume;
  }
  const std::string file = !o.resume.empty() ? o.resume + "/config.toml" : o.config;
  if (!file.empty() && o.given.preset_option->count() > 0)
    throw UsageError("--preset does not go with the settings of " + file);
  if (!file.empty()) return settings_from_file(o, file, o.settings);
  apply_preset(o.given, o.settings);
  check_given(o.given, o.settings);
  return train::load_recipe(o.settings.recipe);
}

void print_header(const train::Trainer& t, const std::string& backend) {
  const train::Settings& s = t.settings();
  fmt::print("{}, {} layers, {} heads, width {}, context {}: {:.3g} M parameters, {} recipe, {} backend\n",
             s.model.kind, s.model.layers, s.model.heads, s.model.width, s.model.context,
             static_cast<double>(t.parameter_count()) / 1e6, t.recipe().name, backend);
  if (!t.recipe().description.empty()) fmt::print("{}: {}\n", t.recipe().name, t.recipe().description);
  fmt::print("{}: {} tokens a step, {} steps, {:.1f} MiB held{}\n", s.data.empty() ? "generated corpus" : s.data,
             t.tokens_a_step(), s.schedule.steps, static_cast<double>(t.memory_bytes()) / (1 << 20),
             t.entropy() ? fmt::format(", entropy floor {:.4f} nats/byte", *t.entropy()) : "");
  std::fflush(stdout);
}

/// Where the time of the steps went, by op, largest first.
void print_times(const train::OpTimes& times, int64_t steps) {
  std::vector<int> ops;
  double total = 0;
  for (int op = 0; op < kOpCount; ++op) {
    if (times.calls[op] > 0) ops.push_back(op);
    total += times.seconds[op];
  }
  std::sort(ops.begin(), ops.end(), [&](int a, int b) { return times.seconds[a] > times.seconds[b]; });
  fmt::print("{:<22}{:>12}{:>14}{:>8}\n", "op", "calls/step", "ms/step", "share");
  for (const int op : ops)
    fmt::print("{:<22}{:>12}{:>14.3f}{:>7.1f}%\n", kOps[op].name, times.calls[op] / steps,
               1e3 * times.seconds[op] / static_cast<double>(steps), 100 * times.seconds[op] / total);
}

void print_result(const Options& o, const train::Trainer& t, const train::TrainResult& r) {
  if (o.json) {
    nlohmann::ordered_json j{{"recipe", t.recipe().name}, {"train_loss", r.train_loss}, {"val_loss", r.val_loss}};
    if (r.entropy) j["entropy"] = *r.entropy;
    j["tokens_per_s"] = r.tokens_per_s;
    j["hash"] = r.hash;
    fmt::print("{}\n", j.dump());
    return;
  }
  fmt::print("final: train_loss={:.6f} val_loss={:.6f} tokens_per_s={:.0f} hash={}\n", r.train_loss, r.val_loss,
             r.tokens_per_s, r.hash);
}

/// Takes the parameters of a model that computes the same function.
void initialize(train::Trainer& trainer, const std::string& path) {
  const train::LoadedModel loaded = train::load_model(path);
  const std::string difference = train::first_difference(loaded.config, trainer.settings().model);
  if (!difference.empty()) throw Error(fmt::format("{}: its model differs from the run's: {}", path, difference));
  trainer.initialize_from(loaded.parameters, path);
}

void run(Options& o) {
  train::Recipe recipe = prepare(o);
  train::check(o.settings);
  const std::unique_ptr<Backend> backend = make_backend(o.backend, o.threads);
  train::Trainer trainer(*backend, o.settings, std::move(recipe));
  if (!o.resume.empty()) trainer.restore(train::load_checkpoint(o.resume + "/checkpoint.safetensors"));
  if (!o.init.empty()) initialize(trainer, o.init);
  const bool talk = !o.quiet && !o.json;
  if (talk) print_header(trainer, backend->name());
  const int64_t first_step = trainer.step();
  if (o.profile) trainer.profile();
  Progress progress(first_step, o.settings.schedule.steps, trainer.tokens_a_step(), talk);
  const train::TrainResult result =
      train::run_training(trainer, o.out, [&](const train::StepReport& r) { progress.step(r); });
  progress.finish();
  if (trainer.times() && trainer.step() > first_step) print_times(*trainer.times(), trainer.step() - first_step);
  print_result(o, trainer, result);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a small transformer in simulated FP4");
  o->given = add_setting_options(*command, o->settings, {});
  command->add_option("--backend", o->backend, kBackendHelp)->capture_default_str();
  command->add_option("--threads", o->threads, "CPU threads (0: all cores)")->capture_default_str();
  command->add_option("--out", o->out, "folder for metrics.jsonl, config.toml and checkpoint.safetensors");
  command->add_option("--resume", o->resume, "folder of a run to continue, bit-exactly");
  command->add_option("--init", o->init, "checkpoint to take the parameters from; everything else starts anew");
  command->add_option("--config", o->config, "config.toml of a run to repeat");
  command->add_flag("--profile", o->profile, "a table of the steps' time by op");
  command->add_flag("--quiet", o->quiet, "only the last line");
  command->add_flag("--json", o->json, "only one JSON object");
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
