#include "cli/train/training_step.h"

#include <fmt/format.h>

#include "cli/train/autodiff.h"
#include "cli/train/passes/passes.h"
#include "reference/contract/error.h"
#include "reference/contract/step_info.h"

namespace fp4sim::train {
namespace {

ValueId one(Graph& graph, Op op, std::vector<ValueId> in, Attrs attrs, const std::string& name) {
  return add_node(graph, op, std::move(in), std::move(attrs), name).front();
}

/// Products of one micro-batch carry its index: their random streams count rows globally (numerics.md §3).
void mark_micro_batch(Graph& graph, size_t begin, int64_t micro_batch) {
  if (micro_batch == 0) return;
  for (size_t n = begin; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op == Op::matmul) graph.nodes[n].attrs.set("micro_batch", micro_batch);
}

/// Forward and backward of every micro-batch; gradients summed in ascending micro-batch order.
std::vector<std::pair<size_t, size_t>> add_model(TrainingStep& s, const ModelConfig& config, const ModelValues& values,
                                                 const StepOptions& options, bool backward) {
  Graph& g = s.graph;
  std::vector<std::pair<size_t, size_t>> forward_ranges;
  std::vector<ValueId> losses;
  const int64_t total_rows = options.batch * config.context * options.micro_batches;
  for (int64_t m = 0; m < options.micro_batches; ++m) {
    const size_t begin = g.nodes.size();
    const std::string suffix = options.micro_batches == 1 ? "" : fmt::format(".{}", m);
    const ForwardValues f = add_forward(g, config, values, options.batch, config.context, suffix, true);
    const size_t end = g.nodes.size();
    forward_ranges.emplace_back(begin, end);
    s.ids.push_back(f.ids);
    s.targets.push_back(f.targets);
    losses.push_back(f.losses);
    if (backward) {
      const ValueId dlogits =
          one(g, Op::cross_entropy_grad, {f.logits, f.targets, s.step}, {{"total_rows", total_rows}}, "loss/grad");
      const Gradients gradients = add_backward(g, begin, end, {{f.logits, dlogits}});
      for (const auto& [name, v] : values.parameters) {
        const ValueId term = gradients.at(v);
        const auto [it, first] = s.gradients.try_emplace(name, term);
        if (!first) it->second = one(g, Op::add, {it->second, term}, {}, name + "/micro_batches");
      }
    }
    mark_micro_batch(g, begin, m);
  }
  const ValueId all = losses.size() == 1 ? losses[0] : one(g, Op::concat, losses, {}, "losses");
  s.loss = one(g, Op::mean, {all}, {}, "loss");
  return forward_ranges;
}

void add_optimizer(TrainingStep& s, const ModelValues& values, const StepOptions& options) {
  Graph& g = s.graph;
  std::vector<ValueId> in_name_order;
  for (const auto& [name, v] : s.gradients) in_name_order.push_back(v);
  s.grad_norm = one(g, Op::norm, in_name_order, {}, "grad_norm");
  for (const auto& [name, parameter] : values.parameters) {
    ValueId gradient = s.gradients.at(name);
    if (options.clip) gradient = one(g, Op::clip, {gradient, s.grad_norm, s.step}, {}, name + "/clip");
    const ValueType type = g.type(parameter);
    const ValueId m = add_value(g, type, ValueKind::state, "adamw.m/" + name);
    const ValueId v = add_value(g, type, ValueKind::state, "adamw.v/" + name);
    const double decay = type.shape.size() >= 2 ? options.weight_decay : 0.0;
    add_node(g, Op::adamw, {parameter, m, v, gradient, s.step},
             {{"weight_decay", decay}, {"beta1", options.beta1}, {"beta2", options.beta2}, {"eps", options.eps}},
             name + "/adamw");
  }
}

/// The gradients are results while passes run, so that replace_uses keeps them right.
void results_from_gradients(TrainingStep& s) {
  s.graph.results = {s.loss};
  for (const auto& [name, v] : s.gradients) s.graph.results.push_back(v);
}
void gradients_from_results(TrainingStep& s) {
  size_t i = 0;
  s.loss = s.graph.results[i++];
  for (auto& [name, v] : s.gradients) v = s.graph.results[i++];
}

}  // namespace

TrainingStep build_training_step(const ModelConfig& config, const Recipe& recipe, const StepOptions& options,
                                 Stage until, bool keep_gradients) {
  if (options.batch < 1 || options.micro_batches < 1)
    throw UsageError(
        fmt::format("batch and micro-batches must be at least 1, got {} and {}", options.batch, options.micro_batches));
  TrainingStep s;
  Graph& g = s.graph;
  s.step = add_value(g, step_type(), ValueKind::input, "step");
  const ModelValues values = add_model_values(g, config);
  const auto forward_ranges = add_model(s, config, values, options, until >= Stage::backward);
  results_from_gradients(s);
  if (until >= Stage::qdq) {
    if (recipe.bf16_activations) store_activations(g, forward_ranges);
    const QdqResult qdq = insert_qdq(g, recipe, s.step);
    if (until >= Stage::estimators) override_gradient(g, recipe, qdq);
    if (until >= Stage::packed) lower_to_packed(g, recipe);
    redundant_casts(g);
    merge_quantizers(g);
    gather_quantizers(g);
  }
  gradients_from_results(s);
  if (until >= Stage::optimizer) {
    add_optimizer(s, values, options);
    if (keep_gradients)
      g.results.push_back(s.grad_norm);
    else
      g.results = {s.loss, s.grad_norm};
  }
  dead_code(g);
  return s;
}

EvaluationStep build_evaluation_step(const ModelConfig& config, const Recipe& recipe, int64_t batch, int64_t length,
                                     bool with_losses) {
  EvaluationStep s;
  Graph& g = s.graph;
  s.step = add_value(g, step_type(), ValueKind::input, "step");
  const ModelValues values = add_model_values(g, config);
  const ForwardValues f = add_forward(g, config, values, batch, length, "", with_losses);
  g.results = {with_losses ? f.losses : f.logits};
  if (recipe.bf16_activations) store_activations(g, {{0, g.nodes.size()}});
  insert_qdq(g, recipe, s.step);
  lower_to_packed(g, recipe);
  redundant_casts(g);
  merge_quantizers(g);
  dead_code(g);
  s.ids = f.ids;
  s.targets = f.targets;
  (with_losses ? s.losses : s.logits) = g.results[0];
  return s;
}

}  // namespace fp4sim::train
