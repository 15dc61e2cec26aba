#include "cli/train/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cli/train/trainer.h"
#include "reference/contract/error.h"
#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"
#include "reference/contract/step_info.h"

namespace fp4sim::train {
namespace {

constexpr int64_t kShortestPlan = 16;  // tokens

/// Rows of `length` tokens made `padded` tokens long. The filling repeats a row's last token: causality hides it,
/// except that a masked weight +0 times a NaN or Inf of a token that is not in the text would not be 0.
std::vector<int32_t> padded_rows(const std::vector<int32_t>& tokens, int64_t rows, int64_t length, int64_t padded) {
  std::vector<int32_t> result;
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = tokens.begin() + row * length;
    result.insert(result.end(), begin, begin + length);
    result.resize(static_cast<size_t>((row + 1) * padded), *(begin + length - 1));
  }
  return result;
}

}  // namespace

double Evaluation::perplexity() const { return host_math::exp64(nll); }

InferenceModel::InferenceModel(Backend& backend, const LoadedModel& model, Recipe recipe)
    : model_(model), recipe_(std::move(recipe)), backend_(backend), store_(backend) {
  for (const ParameterInfo& info : parameter_infos(model_.config)) {
    store_.ensure(info.name, {DType::f32, info.shape, {}, Axis::last});
    const auto values = model_.parameters.at(info.name).as<float>();
    store_.upload(info.name, {values.begin(), values.end()});
  }
}

InferenceModel::Prepared& InferenceModel::prepare(int64_t batch, int64_t length, bool with_losses) {
  const auto [at, added] = prepared_.try_emplace({batch, length, with_losses});
  Prepared& prepared = at->second;
  if (!added) return prepared;
  prepared.step = build_evaluation_step(model_.config, recipe_, batch, length, with_losses);
  prepared.executor = std::make_unique<Executor>(backend_, prepared.step.graph, store_);
  upload_constants(store_, model_.config);
  StepInfo info;
  info.seed = model_.seed;
  info.step = model_.step;
  prepared.executor->set_input(prepared.step.step, &info, sizeof info);
  return prepared;
}

void InferenceModel::set_inputs(Prepared& prepared, const std::vector<int32_t>& ids,
                                const std::vector<int32_t>* targets) {
  const auto bytes = static_cast<int64_t>(ids.size() * sizeof(int32_t));
  prepared.executor->set_input(prepared.step.ids, ids.data(), bytes);
  if (targets != nullptr) prepared.executor->set_input(prepared.step.targets, targets->data(), bytes);
}

/// gpt's learned positions belong to whole contexts; llama takes any length.
int64_t InferenceModel::plan_length(int64_t tokens) const {
  const int64_t context = model_.config.context;
  if (model_.config.kind == "gpt") return context;
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
  return std::min(context, std::max(kShortestPlan, power));
}

Evaluation InferenceModel::evaluate(const TokenData& data, int64_t context, int64_t batch) {
  if (context < 1 || context > model_.config.context)
    throw Error(fmt::format("context {} is not in 1 … {}, the model's context", context, model_.config.context));
  if (data.validation_size() < 2)
    throw Error(fmt::format("{}: {} tokens, at least 2 are needed to score one", data.name, data.validation_size()));
  require_vocabulary(data, model_.config.vocab);
  const int64_t length = std::min(context, data.validation_size() - 1);
  const int64_t windows = validation_windows(data, length);
  const int64_t padded = model_.config.kind == "gpt" ? model_.config.context : length;
  Prepared& prepared = prepare(batch, padded, true);
  double sum = 0;
  for (int64_t first = 0; first < windows; first += batch) {
    const Batch tokens = validation_batch(data, first, batch, length);
    const std::vector<int32_t> ids = padded_rows(tokens.inputs, batch, length, padded);
    const std::vector<int32_t> targets = padded_rows(tokens.targets, batch, length, padded);
    set_inputs(prepared, ids, &targets);
    prepared.executor->run();
    const std::vector<float> losses = prepared.executor->read(prepared.step.losses);
    const int64_t rows = std::min(batch, windows - first);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < length; ++i) sum += losses[static_cast<size_t>(row * padded + i)];
  }
  return {sum / static_cast<double>(windows * length), windows * length};
}

std::vector<float> InferenceModel::logits(std::span<const int32_t> prefix) {
  const auto count = static_cast<int64_t>(prefix.size());
  if (count < 1 || count > model_.config.context)
    throw Error(
        fmt::format("a prefix of {} tokens is not in 1 … {}, the model's context", count, model_.config.context));
  std::vector<int32_t> ids(prefix.begin(), prefix.end());
  for (const int32_t id : ids)
    if (id < 0 || id >= model_.config.vocab)
      throw Error(fmt::format("token id {} is outside the model's vocabulary of {}", id, model_.config.vocab));
  ids.resize(static_cast<size_t>(plan_length(count)), ids.back());
  Prepared& prepared = prepare(1, plan_length(count), false);
  set_inputs(prepared, ids, nullptr);
  prepared.executor->run();
  std::vector<float> all = prepared.executor->read(prepared.step.logits);
  all.resize(static_cast<size_t>(count * model_.config.vocab));
  return all;
}

int32_t choose_token(std::span<const float> logits, double temperature, uint64_t seed, uint64_t n) {
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] == logits[i] && (best < 0 || logits[i] > logits[static_cast<size_t>(best)]))
      best = static_cast<int32_t>(i);
  if (best < 0) throw Error("every logit is NaN: no token can be chosen");
  if (temperature == 0) return best;
  const double largest = logits[static_cast<size_t>(best)];
  std::vector<double> cumulative;
  double total = 0;
  for (const float logit : logits) {
    // equal infinities differ by NaN: they share the largest weight
    const double z = logit == largest ? 0.0 : (static_cast<double>(logit) - largest) / temperature;
    total += logit == logit ? host_math::exp64(z) : 0.0;
    cumulative.push_back(total);
  }
  const auto words = host_math::philox(seed, n, stream_of("generate"), 0);
  const uint64_t bits = (static_cast<uint64_t>(words.w[1]) << 32 | words.w[0]) >> 11;
  const double u = static_cast<double>(bits) * 0x1p-53 * total;
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), u);
  return at == cumulative.end() ? best : static_cast<int32_t>(at - cumulative.begin());
}

std::vector<int32_t> generate_tokens(InferenceModel& model, std::span<const int32_t> prompt, int64_t count,
                                     double temperature, uint64_t seed, const std::function<void(int32_t)>& on_token) {
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  const auto context = static_cast<size_t>(model.config().context);
  std::vector<int32_t> generated;
  for (int64_t n = 0; n < count; ++n) {
    const size_t seen = std::min(tokens.size(), context);
    const std::vector<float> logits = model.logits(std::span(tokens).last(seen));
    const auto last = std::span(logits).last(static_cast<size_t>(model.config().vocab));
    const int32_t token = choose_token(last, temperature, seed, static_cast<uint64_t>(n));
    tokens.push_back(token);
    generated.push_back(token);
    on_token(token);
  }
  return generated;
}

}  // namespace fp4sim::train
