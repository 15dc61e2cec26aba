// The gradient table, the passes and the memory plan: rewrites mean what the recipe says, neutral passes change no bit.
#include "cli/train/autodiff.h"
#include "cli/train/executor.h"
#include "cli/train/passes/passes.h"
#include "cli/train/trainer.h"
#include "reference/contract/error.h"
#include "reference/contract/step_info.h"
#include "reference/simd/backend.h"

#include <algorithm>
#include <map>

namespace fp4sim::train {
namespace {

ModelConfig tiny(const std::string& kind) {
  ModelConfig c;
  c.kind = kind;
  c.layers = 2;
  c.width = 64;
  c.context = 32;
  if (kind == "llama") c.kv_heads = 2;
  return resolved(c);
}

StepOptions small_step(int64_t micro_batches = 1) {
  StepOptions o;
  o.batch = 2;
  o.micro_batches = micro_batches;
  return o;
}

size_t count(const Graph& g, Op op) {
  size_t n = 0;
  for (const Node& node : g.nodes) n += node.op == op;
  return n;
}

/// Loss and all gradients of one step on fixed tokens; micro-batch m reads text number first_batch + m.
std::vector<std::vector<float>> run(const TrainingStep& step, const ModelConfig& config, size_t first_batch = 0) {
  const auto backend = simd::make_backend(2);
  ValueStore store(*backend);
  Executor executor(*backend, step.graph, store);
  upload_constants(store, config);
  for (const ParameterInfo& info : parameter_infos(config)) store.upload(info.name, initial_values(info, config, 7));
  StepInfo info;
  info.seed = 7;
  executor.set_input(step.step, &info, sizeof(info));
  for (size_t m = 0; m < step.ids.size(); ++m) {
    std::vector<int32_t> ids, targets;
    for (int64_t i = 0; i < step.graph.type(step.ids[m]).shape[0]; ++i) {
      ids.push_back(static_cast<int32_t>((i * 37 + 11 * static_cast<int64_t>(first_batch + m)) % 251));
      targets.push_back(static_cast<int32_t>((i * 53 + 5 + 7 * static_cast<int64_t>(first_batch + m)) % 256));
    }
    executor.set_input(step.ids[m], ids.data(), static_cast<int64_t>(ids.size() * 4));
    executor.set_input(step.targets[m], targets.data(), static_cast<int64_t>(targets.size() * 4));
  }
  executor.run();
  std::vector<std::vector<float>> all{executor.read(step.loss)};
  for (const auto& [name, v] : step.gradients) all.push_back(executor.read(v));
  return all;
}

TEST(GradientTable, has_a_rule_for_every_op_of_a_forward_pass) {
  for (const char* kind : {"gpt", "llama"}) {
    const TrainingStep step = build_training_step(tiny(kind), load_recipe("fp32"), small_step(), Stage::forward);
    for (const Node& node : step.graph.nodes)
      EXPECT_TRUE(has_gradient_rule(node.op) || node.op == Op::cross_entropy || node.op == Op::mean)
          << op_name(node.op);
  }
  for (const Op op : {Op::quantize, Op::adamw, Op::norm, Op::gelu_grad})
    EXPECT_FALSE(has_gradient_rule(op)) << op_name(op);
}

TEST(GradientTable, refuses_an_op_without_a_rule) {
  Graph g;
  const ValueId x = add_value(g, {DType::f32, {4}, {}, Axis::last}, ValueKind::parameter, "x");
  const ValueId y = add_node(g, Op::mean, {x}, {}, "m").front();
  EXPECT_THROW(add_backward(g, 0, 1, {{y, y}}), Error);
}

TEST(GradientTable, adds_the_gradient_of_the_last_use_first) {
  // y = (x + b) · x: mul is the later use of x, so its term comes first.
  Graph g;
  const ValueType type{DType::f32, {4}, {}, Axis::last};
  const ValueId x = add_value(g, type, ValueKind::parameter, "x"), b = add_value(g, type, ValueKind::parameter, "b");
  const ValueId s = add_node(g, Op::add, {x, b}, {}, "s").front();
  const ValueId y = add_node(g, Op::mul, {s, x}, {}, "y").front();
  const ValueId dy = add_value(g, type, ValueKind::input, "dy");
  const Gradients gradients = add_backward(g, 0, 2, {{y, dy}});
  const Node& sum = g.nodes.back();
  ASSERT_EQ(sum.op, Op::add);
  EXPECT_EQ(sum.outputs[0], gradients.at(x));
  EXPECT_EQ(sum.inputs[1], gradients.at(s));  // the earlier use's term is added to the later one's
}

class EveryRecipe : public testing::TestWithParam<std::string> {};

TEST_P(EveryRecipe, gives_a_valid_graph_at_every_stage_for_both_models) {
  const Recipe recipe = load_recipe(GetParam());
  for (const char* kind : {"gpt", "llama"})
    for (const Stage stage :
         {Stage::forward, Stage::backward, Stage::qdq, Stage::estimators, Stage::packed, Stage::optimizer})
      EXPECT_NO_THROW(validate(build_training_step(tiny(kind), recipe, small_step(2), stage).graph)) << kind;
}

TEST_P(EveryRecipe, merging_quantizers_and_dropping_dead_nodes_changes_no_bit) {
  const Recipe recipe = load_recipe(GetParam());
  const ModelConfig config = tiny("llama");
  const TrainingStep clean = build_training_step(config, recipe, small_step(), Stage::packed);
  // The same step without the neutral passes: built by hand from the rewriting passes alone. The forward nodes come
  // first; the forward stage's graph has the mean of the losses behind them.
  const size_t forward_end = build_training_step(config, recipe, small_step(), Stage::forward).graph.nodes.size() - 1;
  TrainingStep raw = build_training_step(config, recipe, small_step(), Stage::backward);
  raw.graph.results = {raw.loss};
  for (const auto& [name, v] : raw.gradients) raw.graph.results.push_back(v);
  if (recipe.bf16_activations) store_activations(raw.graph, {{0, forward_end}});
  const QdqResult qdq = insert_qdq(raw.graph, recipe, raw.step);
  override_gradient(raw.graph, recipe, qdq);
  lower_to_packed(raw.graph, recipe);
  size_t i = 1;
  raw.loss = raw.graph.results[0];
  for (auto& [name, v] : raw.gradients) v = raw.graph.results[i++];
  EXPECT_EQ(run(clean, config), run(raw, config));
  EXPECT_LE(clean.graph.nodes.size(), raw.graph.nodes.size());
}

INSTANTIATE_TEST_SUITE_P(Builtin, EveryRecipe, testing::ValuesIn(recipe_names()), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Passes, quantize_x_once_for_q_k_and_v) {
  const TrainingStep step = build_training_step(tiny("gpt"), load_recipe("mxfp4-ste"), small_step(), Stage::packed);
  // per layer: x of q/k/v once, of o, up, down; w six times; dy along both axes and w, x along the other axis
  size_t forward_x = 0;
  for (const Node& node : step.graph.nodes) forward_x += node.op == Op::quantize && node.name.ends_with("/x/fprop");
  EXPECT_EQ(forward_x, 2u * 4u);
}

TEST(Passes, exact_products_read_codes_and_fake_ones_read_floats) {
  Recipe recipe = load_recipe("mxfp4-ste");
  const auto packed_operands = [&] {
    const Graph g = build_training_step(tiny("gpt"), recipe, small_step(), Stage::packed).graph;
    size_t n = 0;
    for (const Node& node : g.nodes)
      if (node.op == Op::matmul)
        for (const ValueId v : node.inputs) n += g.type(v).dtype == DType::packed;
    return n;
  };
  EXPECT_EQ(packed_operands(), 2u * 6u * 3u * 2u);  // layers · linears · products · operands; the head stays fp32
  recipe.product_exact = false;
  EXPECT_EQ(packed_operands(), 0u);
}

TEST(Passes, an_occ_operand_gives_a_packed_and_a_sparse_product) {
  const TrainingStep step = build_training_step(tiny("gpt"), load_recipe("fp4-dge-occ"), small_step(), Stage::packed);
  EXPECT_EQ(count(step.graph, Op::sparse_matmul), 2u * 6u);
  EXPECT_EQ(count(step.graph, Op::estimator_grad), 2u * 6u);  // DGE on the weights
}

TEST(Passes, bf16_storage_rounds_every_forward_value_but_the_losses) {
  const Recipe recipe = load_recipe("bf16");
  const TrainingStep step = build_training_step(tiny("gpt"), recipe, small_step(), Stage::packed);
  EXPECT_GT(count(step.graph, Op::cast), 20u);
  EXPECT_EQ(count(step.graph, Op::cast) % 2, 0u);
  for (const Node& node : step.graph.nodes)
    if (node.op == Op::mean) {
      EXPECT_EQ(step.graph.type(node.inputs[0]).dtype, DType::f32);
    }
}

TEST(Passes, gradients_of_two_micro_batches_are_the_sum_of_the_halves) {
  // The weight of a row is 1/N over the rows of the step: with twice the rows it is exactly half, and every operation
  // of the fp32 recipe's backward pass is linear, so a micro-batch's gradient is exactly half of that of a step of its
  // own.
  for (const char* kind : {"gpt", "llama"}) {
    const ModelConfig config = tiny(kind);
    const Recipe recipe = load_recipe("fp32");
    const auto both = run(build_training_step(config, recipe, small_step(2), Stage::packed), config);
    const TrainingStep one = build_training_step(config, recipe, small_step(), Stage::packed);
    const auto first = run(one, config, 0), second = run(one, config, 1);
    for (size_t g = 1; g < both.size(); ++g)
      for (size_t i = 0; i < both[g].size(); ++i)
        ASSERT_EQ(both[g][i], 0.5f * first[g][i] + 0.5f * second[g][i]) << "gradient " << g << " element " << i;
  }
}

TEST(Passes, stochastic_quantizers_of_the_second_micro_batch_count_its_rows_and_weights_do_not) {
  Recipe recipe = parse_recipe("[fprop]\nx = \"mxfp4:sr32\"\nw = \"mxfp4:sr8\"\n[dgrad]\ndy = \"mxfp4:sr8\"", "r.toml");
  const Graph g = build_training_step(tiny("gpt"), recipe, small_step(2), Stage::packed).graph;
  std::map<std::string, std::vector<int64_t>> offsets;
  for (const Node& node : g.nodes)
    if (node.op == Op::quantize) offsets[node.name].push_back(node.attrs.integer("row_offset"));
  EXPECT_EQ(offsets.at("layers.0.ffn.up/x/fprop"), (std::vector<int64_t>{0, 64}));
  EXPECT_EQ(offsets.at("layers.0.ffn.up/w/fprop"), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(offsets.at("layers.0.ffn.up/dy/dgrad"), (std::vector<int64_t>{0, 64}));
}

const Node& node_named(const Graph& g, Op op, const std::string& name) {
  for (const Node& node : g.nodes)
    if (node.op == op && node.name == name) return node;
  throw std::runtime_error("no " + std::string(op_name(op)) + " named " + name);
}

TEST(Passes, a_soft_forward_value_takes_the_place_of_the_decoded_one_and_is_not_packed) {
  const Recipe recipe = parse_recipe(
      "[fprop]\nx = \"mxfp4\"\nw = { spec = \"mxfp4\", estimator = \"soft(beta=20,forward=soft)\" }", "r.toml");
  const Graph g = build_training_step(tiny("gpt"), recipe, small_step(), Stage::packed).graph;
  EXPECT_EQ(count(g, Op::soft_forward), 2u * 6u + 1u);  // the head too
  EXPECT_EQ(count(g, Op::estimator_grad), count(g, Op::soft_forward));
  const Node& soft = node_named(g, Op::soft_forward, "layers.0.ffn.up/w/fprop");
  EXPECT_EQ(soft.attrs.text("estimator"), "soft(beta=20,forward=soft)");
  const Node& product = node_named(g, Op::matmul, "layers.0.ffn.up/fprop");
  EXPECT_EQ(product.inputs[1], soft.outputs[0]);
  EXPECT_EQ(g.type(product.inputs[0]).dtype, DType::f32) << "the other operand is decoded (numerics.md §7)";
  const Node& gradient = node_named(g, Op::estimator_grad, "layers.0.ffn.up/w/estimator");
  EXPECT_EQ(gradient.inputs[1], soft.inputs[0]);
  EXPECT_EQ(gradient.inputs[2], soft.inputs[1]);
}

TEST(Passes, a_soft_forward_value_of_an_occ_operand_keeps_its_sparse_product) {
  const Recipe recipe = parse_recipe(
      "[fprop]\nw = \"e2m1:row:fp32\"\n"
      "x = { spec = \"e2m1:row:fp32:rne+occ(0.9,fp32,row)\", estimator = \"soft(beta=20,forward=soft)\" }",
      "r.toml");
  const Graph g = build_training_step(tiny("gpt"), recipe, small_step(), Stage::packed).graph;
  EXPECT_EQ(count(g, Op::sparse_matmul), 2u * 6u + 1u);
  EXPECT_EQ(node_named(g, Op::matmul, "layers.0.ffn.up/fprop").inputs[0],
            node_named(g, Op::soft_forward, "layers.0.ffn.up/x/fprop").outputs[0]);
}

/// The factor behind the product of a recipe's fprop, 0 if there is none; and whether its operands are codes.
std::pair<double, bool> factor_of(const std::string& x, const std::string& w, const char* product) {
  const Recipe recipe = parse_recipe(
      "product = \"" + std::string(product) + "\"\n[fprop]\nx = \"" + x + "\"\nw = \"" + w + "\"", "r.toml");
  const Graph g = build_training_step(tiny("gpt"), recipe, small_step(), Stage::packed).graph;
  const Node& dense = node_named(g, Op::matmul, "layers.0.attn.o/fprop");
  double factor = 0;
  for (const Node& node : g.nodes) {
    const bool reads = std::count(node.inputs.begin(), node.inputs.end(), dense.outputs[0]) > 0;
    if (node.op == Op::scale && node.name == "layers.0.attn.o/fprop/sr34") {
      factor = node.attrs.number("factor");
      EXPECT_TRUE(reads);
    } else if (factor != 0) {
      EXPECT_FALSE(reads) << "only the factor reads the product: " << node.name;
    }
  }
  return {factor, g.type(dense.inputs[0]).dtype == DType::packed};
}

TEST(Passes, a_product_of_decoded_sr34_operands_is_multiplied_and_a_packed_one_multiplies_itself) {
  const std::string sr34 = "mxfp4:sr8+sr34", plain = "mxfp4", other = "nvfp4";
  using Result = std::pair<double, bool>;
  EXPECT_EQ(factor_of(sr34, sr34, "exact"), Result(0, true));
  EXPECT_EQ(factor_of(sr34, plain, "exact"), Result(0, true));
  EXPECT_EQ(factor_of(sr34, other, "exact"), Result(4.0 / 3.0, false)) << "blocks of 32 and 16 are decoded";
  EXPECT_EQ(factor_of(sr34, "fp32", "exact"), Result(4.0 / 3.0, false));
  EXPECT_EQ(factor_of(sr34, sr34, "fake"), Result(16.0 / 9.0, false));
  EXPECT_EQ(factor_of(plain, sr34, "fake"), Result(4.0 / 3.0, false));
  EXPECT_EQ(factor_of(plain, plain, "fake"), Result(0, false));
}

TEST(Passes, tiles_and_blocks_of_one_size_share_their_partition_along_every_axis) {
  const Recipe recipe = parse_recipe(
      "[fprop]\nx = \"nvfp4\"\nw = \"e2m1:2d16:e4m3/te\"\n[dgrad]\ndy = \"nvfp4:sr8\"\nw = \"e2m1:2d16:e4m3/te\"\n"
      "[wgrad]\ndy = \"nvfp4:sr8\"\nx = \"nvfp4\"",
      "r.toml");
  const Graph g = build_training_step(tiny("llama"), recipe, small_step(2), Stage::packed).graph;
  size_t linear = 0;
  for (const Node& node : g.nodes) {
    if (node.op != Op::matmul || node.name.find("attn.q/") == std::string::npos) continue;
    for (const ValueId v : node.inputs) EXPECT_EQ(g.type(v).dtype, DType::packed) << node.name;
    ++linear;
  }
  EXPECT_EQ(linear, 2u * 3u * 2u);  // layers · products · micro-batches
  EXPECT_EQ(node_named(g, Op::quantize, "layers.0.attn.q/w/dgrad").attrs.text("axis"), "first");
}

TEST(Passes, codes_along_another_axis_are_decoded_with_their_residual) {
  // Square shapes: the codes of x along its last axis would fit the shape of wgrad, which contracts the first.
  ModelConfig c = tiny("llama");
  c.kv_heads = c.heads;
  StepOptions o = small_step();
  Recipe exact = parse_recipe(
      "[fprop]\nx = \"e2m1:row:fp32:rne+occ(0.9,fp32,row)\"\nw = \"e2m1:row:fp32\"\n"
      "[dgrad]\ndy = \"e2m1:row:fp32\"\nw = { spec = \"fp32\", source = \"forward\" }\n"
      "[wgrad]\ndy = \"e2m1:row:fp32\"\nx = { spec = \"fp32\", source = \"forward\" }\n",
      "r.toml");
  const Graph g = build_training_step(c, exact, o, Stage::packed).graph;
  EXPECT_NO_THROW(validate(g));
  for (const Node& node : g.nodes) {
    if (node.op != Op::matmul || node.name.ends_with("/fprop")) continue;
    for (const ValueId v : node.inputs) EXPECT_EQ(g.type(v).dtype, DType::f32) << node.name;
    EXPECT_FALSE(node.name.ends_with("/sparse"));
  }
  for (const Node& node : g.nodes)
    if (node.op == Op::sparse_matmul) {
      EXPECT_TRUE(node.name.ends_with("/fprop/sparse")) << node.name;
    }
}

TEST(Passes, quantizers_of_one_value_are_neighbours) {
  for (const char* name : {"mxfp4-ste", "fp8", "fp4-dge-occ"}) {
    const Graph g = build_training_step(tiny("gpt"), load_recipe(name), small_step(2)).graph;
    EXPECT_NO_THROW(validate(g));
    std::map<ValueId, size_t> last;
    int pairs = 0;
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      if (g.nodes[n].op != Op::quantize) continue;
      const ValueId x = g.nodes[n].inputs[0];
      if (const auto it = last.find(x); it != last.end()) {
        EXPECT_EQ(it->second + 1, n) << name << ": " << g.nodes[n].name;
        ++pairs;
      }
      last[x] = n;
    }
    EXPECT_GT(pairs, 0) << name;
  }
}

TEST(MemoryPlan, never_gives_overlapping_memory_to_values_that_live_together) {
  for (const char* name : {"fp32", "fp4-dge-occ", "mxfp4-soft"}) {
    const Graph g = build_training_step(tiny("llama"), load_recipe(name), small_step(2)).graph;
    const MemoryPlan plan = plan_memory(g, 4);
    EXPECT_LT(plan.bytes, plan.bytes_without_reuse / 2);
    EXPECT_GT(plan_memory(g, 16).bytes, plan.bytes);
    std::vector<std::pair<size_t, size_t>> life(g.values.size(), {g.nodes.size(), 0});
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      for (const ValueId v : g.nodes[n].outputs) life[static_cast<size_t>(v)] = {n, n};
      for (const ValueId v : g.nodes[n].inputs) life[static_cast<size_t>(v)].second = n;
    }
    for (const ValueId v : g.results) life[static_cast<size_t>(v)].second = g.nodes.size();
    for (size_t a = 0; a < g.values.size(); ++a)
      for (size_t b = a + 1; b < g.values.size(); ++b) {
        if (plan.offsets[a] < 0 || plan.offsets[b] < 0) continue;
        const bool together = life[a].first <= life[b].second && life[b].first <= life[a].second;
        const int64_t a_end = plan.offsets[a] + planned_bytes(g.values[a].type),
                      b_end = plan.offsets[b] + planned_bytes(g.values[b].type);
        const bool overlap = plan.offsets[a] < b_end && plan.offsets[b] < a_end;
        ASSERT_FALSE(together && overlap) << "values " << a << " and " << b;
      }
  }
}

TEST(Model, ties_the_head_of_gpt_and_not_of_llama) {
  ModelConfig c;
  EXPECT_TRUE(resolved(c).tied_head);
  c.kind = "llama";
  EXPECT_FALSE(resolved(c).tied_head);
  const auto has_head = [](const ModelConfig& m) {
    for (const ParameterInfo& info : parameter_infos(resolved(m)))
      if (info.name == "head.weight") return true;
    return false;
  };
  EXPECT_TRUE(has_head(c));
  c.tied_head = true;
  EXPECT_FALSE(has_head(c));
}

TEST(Model, rejects_sizes_that_do_not_fit_with_both_numbers) {
  ModelConfig c;
  c.width = 100;
  c.heads = 3;
  try {
    resolved(c);
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "model: width 100 is not a multiple of heads 3");
  }
  c = ModelConfig{};
  c.kind = "rnn";
  EXPECT_THROW(resolved(c), UsageError);
}

}  // namespace
}  // namespace fp4sim::train
