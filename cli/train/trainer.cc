#include "cli/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "cli/io/sha256.h"
#include "cli/train/corpus.h"
#include "reference/contract/error.h"
#include "reference/contract/step_info.h"

namespace fp4sim::train {
namespace {

constexpr size_t kReportedLosses = 50;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Trainer::Trainer(Backend& backend, Settings settings, Recipe recipe)
    : backend_(backend), settings_(std::move(settings)), recipe_(std::move(recipe)), store_(backend) {
  check(settings_);
  const int64_t context = settings_.model.context;
  if (settings_.data.empty()) {
    entropy_ = corpus_entropy().nats_per_byte;
    const std::string text = corpus_text(settings_.seed, settings_.corpus_bytes);
    data_ = split_tokens(text, settings_.val_fraction, context, "the generated corpus");
  } else {
    data_ = load_tokens(settings_.data, settings_.val_fraction, context);
  }
  require_vocabulary(data_, settings_.model.vocab);
  data_hash_ = io::sha256_hex(std::as_bytes(std::span(data_.tokens)));
  training_ = build_training_step(settings_.model, recipe_, settings_.step);
  train_executor_ = std::make_unique<Executor>(backend_, training_.graph, store_);
  if (validation_windows(data_, context) > 0) {
    evaluation_ = build_evaluation_step(settings_.model, recipe_, settings_.step.batch, context, true);
    evaluation_executor_ = std::make_unique<Executor>(backend_, evaluation_.graph, store_);
  }
  upload_constants(store_, settings_.model);
  for (const ParameterInfo& info : parameter_infos(settings_.model))
    store_.upload(info.name, initial_values(info, settings_.model, settings_.seed));
}

void upload_constants(ValueStore& store, const ModelConfig& config) {
  if (store.has("rope.cos")) store.upload("rope.cos", rope_table(config, false));
  if (store.has("rope.sin")) store.upload("rope.sin", rope_table(config, true));
}

void Trainer::upload_tensors(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const auto values = tensor.as<float>();
    store_.upload(name, {values.begin(), values.end()});
  }
}

void Trainer::initialize_from(const TensorMap& parameters, const std::string& origin) {
  require_parameters(settings_.model, parameters, origin);
  upload_tensors(parameters);
}

void Trainer::set_step_info(int64_t step) {
  StepInfo info;
  info.seed = settings_.seed;
  info.step = static_cast<uint32_t>(step);
  info.lr = learning_rate(settings_.schedule, step);
  info.beta1_power = beta1_power_;
  info.beta2_power = beta2_power_;
  info.clip_norm = settings_.clip > 0 ? static_cast<float>(settings_.clip) : std::numeric_limits<float>::infinity();
  train_executor_->set_input(training_.step, &info, sizeof(info));
}

void Trainer::start_step() {
  const int64_t step = step_ + static_cast<int64_t>(started_.size());
  beta1_power_ *= settings_.step.beta1;
  beta2_power_ *= settings_.step.beta2;
  set_step_info(step);
  for (int64_t m = 0; m < settings_.step.micro_batches; ++m) {
    const Batch batch = sample_batch(data_, settings_.seed, step, m, settings_.step.batch, settings_.model.context);
    const auto bytes = static_cast<int64_t>(batch.inputs.size() * sizeof(int32_t));
    train_executor_->set_input(training_.ids[static_cast<size_t>(m)], batch.inputs.data(), bytes);
    train_executor_->set_input(training_.targets[static_cast<size_t>(m)], batch.targets.data(), bytes);
  }
  if (times_)
    train_executor_->run_timed(*times_);
  else
    train_executor_->run();
  StartedStep& started = started_.emplace_back();
  started.lr = learning_rate(settings_.schedule, step);
  started.downloads[0] = train_executor_->start_read(training_.loss, started.loss);
  started.downloads[1] = train_executor_->start_read(training_.grad_norm, started.grad_norm);
}

StepReport Trainer::advance(bool next_follows) {
  const double begin = seconds_now();
  if (started_.empty()) start_step();
  if (next_follows && started_.size() == 1 && backend_.runs_ahead() && !times_) start_step();
  const StartedStep& done = started_.front();
  for (const auto& download : done.downloads) download->wait();
  StepReport report;
  report.lr = done.lr, report.loss = done.loss, report.grad_norm = done.grad_norm;
  started_.pop_front();
  report.step = ++step_;
  report.seconds = seconds_now() - begin;
  seconds_ += report.seconds;
  ++timed_steps_;
  last_losses_.push_back(report.loss);
  if (last_losses_.size() > kReportedLosses) last_losses_.erase(last_losses_.begin());
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm))
    throw Error(fmt::format(
        "step {}: the loss is {} and the gradient norm {}; the run stops here (the last checkpoint is untouched)",
        report.step, report.loss, report.grad_norm));
  return report;
}

double Trainer::evaluate(int64_t batches) {
  const int64_t batch = settings_.step.batch, context = settings_.model.context;
  int64_t windows = validation_windows(data_, context);
  if (batches > 0) windows = std::min(windows, batches * batch);
  if (windows == 0) return std::numeric_limits<double>::quiet_NaN();
  StepInfo info;
  info.seed = settings_.seed;
  info.step = static_cast<uint32_t>(step_);
  evaluation_executor_->set_input(evaluation_.step, &info, sizeof(info));
  double sum = 0;
  for (int64_t first = 0; first < windows; first += batch) {
    // The last batch is filled up with its first window again; the filling is not counted.
    const Batch b = validation_batch(data_, first, batch, context);
    const auto bytes = static_cast<int64_t>(b.inputs.size() * sizeof(int32_t));
    evaluation_executor_->set_input(evaluation_.ids, b.inputs.data(), bytes);
    evaluation_executor_->set_input(evaluation_.targets, b.targets.data(), bytes);
    evaluation_executor_->run();
    const std::vector<float> losses = evaluation_executor_->read(evaluation_.losses);
    const int64_t counted = std::min(batch, windows - first) * context;
    for (int64_t i = 0; i < counted; ++i) sum += losses[static_cast<size_t>(i)];
  }
  return sum / static_cast<double>(windows * context);
}

int64_t Trainer::parameter_count() const {
  int64_t n = 0;
  for (const ParameterInfo& info : parameter_infos(settings_.model)) n += element_count(info.shape);
  return n;
}

int64_t Trainer::memory_bytes() const {
  const int64_t evaluation = evaluation_executor_ != nullptr ? evaluation_executor_->arena_bytes() : 0;
  return store_.bytes() + train_executor_->arena_bytes() + evaluation;
}

int64_t Trainer::tokens_a_step() const {
  return settings_.step.batch * settings_.step.micro_batches * settings_.model.context;
}

TensorMap Trainer::download_tensors(std::initializer_list<const char*> prefixes) const {
  TensorMap tensors;
  for (const ParameterInfo& info : parameter_infos(settings_.model))
    for (const std::string prefix : prefixes)
      tensors[prefix + info.name] = io::make_f32(info.shape, store_.download(prefix + info.name));
  return tensors;
}

TrainingState Trainer::state() const {
  if (!started_.empty()) throw Error("the state of a run whose next step has begun belongs to no step");
  TrainingState state;
  state.model = settings_.model;
  state.parameters = download_tensors({""});
  state.states = download_tensors({"adamw.m/", "adamw.v/"});
  state.step = step_;
  state.beta1_power = beta1_power_;
  state.beta2_power = beta2_power_;
  state.seed = settings_.seed;
  state.data_cursor = step_ * settings_.step.micro_batches * settings_.step.batch;
  state.recipe = recipe_.text;
  state.config = to_toml(settings_, recipe_.text);
  state.recent_losses = last_losses_;
  state.notes["data_sha256"] = data_hash_;
  return state;
}

void Trainer::restore(const TrainingState& state) {
  const auto same = [](bool ok, const std::string& what) {
    if (!ok) throw Error("resume: " + what);
  };
  same(state.model == settings_.model, "the checkpoint's model has other sizes");
  same(state.seed == settings_.seed, fmt::format("the checkpoint has seed {}, the run {}", state.seed, settings_.seed));
  same(state.recipe == recipe_.text, "the checkpoint was made with another recipe (start anew with --init)");
  same(state.numerics_version == kNumericsVersion,
       fmt::format("the checkpoint was made under numerics_version {}, this program has {}", state.numerics_version,
                   kNumericsVersion));
  same(state.step <= settings_.schedule.steps,
       fmt::format("the checkpoint is at step {}, the run ends at {}", state.step, settings_.schedule.steps));
  same(state.config == to_toml(settings_, recipe_.text),
       "the checkpoint was made with other settings than the run's config.toml");
  const auto data = state.notes.find("data_sha256");
  same(data != state.notes.end() && data->second == data_hash_, "the training data has changed since the checkpoint");
  same(state.data_cursor == state.step * settings_.step.micro_batches * settings_.step.batch,
       "the data position does not belong to the step");
  for (const auto& [name, tensor] : download_tensors({"adamw.m/", "adamw.v/"})) {
    const auto it = state.states.find(name);
    same(it != state.states.end() && it->second.shape == tensor.shape, "the checkpoint has no matching tensor " + name);
  }
  started_.clear();
  upload_tensors(state.parameters);
  upload_tensors(state.states);
  step_ = state.step;
  beta1_power_ = state.beta1_power;
  beta2_power_ = state.beta2_power;
  last_losses_ = state.recent_losses;
}

TrainResult Trainer::result(double val_loss) const {
  TrainResult r;
  r.entropy = entropy();
  r.train_loss = std::numeric_limits<double>::quiet_NaN();
  if (!last_losses_.empty())
    r.train_loss =
        std::accumulate(last_losses_.begin(), last_losses_.end(), 0.0) / static_cast<double>(last_losses_.size());
  r.val_loss = val_loss;
  if (seconds_ > 0) r.tokens_per_s = static_cast<double>(timed_steps_ * tokens_a_step()) / seconds_;
  r.hash = parameters_hash(download_tensors({""}));
  return r;
}

}  // namespace fp4sim::train
