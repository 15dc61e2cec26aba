// Plans of several nodes on the cuda backend: what joins, what stays apart, and the bits of scalar in every value that
// somebody sees.
#include <optional>

#include "gpu/accesses.h"
#include "gpu/lanes.h"
#include "tests/gpu_plans.h"

namespace fp4sim::test {
namespace {

using Names = std::vector<std::string>;
constexpr const char* kNormAttr = "eps";

/// A residual block's end: product + bias + residual, its norm, and gelu of another product's bias sum.
Builder block(int64_t rows, int64_t width) {
  Builder b(1);
  const ValueId x = b.parameter({rows, width}), y = b.parameter({rows, width}), bias = b.parameter({width});
  const ValueId g = b.parameter({width}), beta = b.parameter({width});
  const ValueId product = b.node(Op::scale, {y}, {{"factor", 0.5}});
  const ValueId sum = b.node(Op::add, {x, b.node(Op::add, {product, bias})});
  const ValueId norm = b.node(Op::layernorm, {sum, g, beta}, {{kNormAttr, 1e-5}});
  const ValueId up = b.node(Op::add, {norm, bias});
  const ValueId h = b.node(Op::gelu, {up});
  const ValueId dx = b.node(Op::gelu_grad, {h, up});
  b.graph().results = {sum, h, dx};
  return b;
}

TEST(GpuSchedule, sums_join_their_layernorm_and_a_bias_its_gelu) {
  EXPECT_EQ(block(5, 64).steps(),
            (Names{"elements(scale, add, add)", "layernorm", "elements(add, gelu)", "gelu_grad"}));
  Builder b(1);
  const ValueId x = b.parameter({5, 64}), y = b.parameter({5, 64}), bias = b.parameter({64});
  b.graph().results = {
      b.node(Op::layernorm, {b.node(Op::add, {x, b.node(Op::add, {y, bias})}), bias, bias}, {{kNormAttr, 1e-5}})};
  EXPECT_EQ(b.steps(), Names{"elements and norm(add, add, layernorm)"});
}

/// A residual sum, its norm and the quantizations of that.
Builder norm_and_tiles(int64_t rows, int64_t width, const char* spec, bool seen) {
  Builder b(static_cast<uint64_t>(rows + width));
  const ValueId x = b.parameter({rows, width}), y = b.parameter({rows, width}), gain = b.parameter({width});
  const ValueId sum = b.node(Op::add, {x, b.node(Op::add, {y, gain})});
  const ValueId norm = b.node(Op::layernorm, {sum, gain, b.parameter({width})}, {{kNormAttr, 1e-5}});
  const auto packed = [&](const char* axis) {
    return b.node(Op::dequantize, {b.node(Op::quantize, {norm}, {{"spec", spec}, {"axis", axis}})});
  };
  const ValueId last = packed("last"), first = packed("first");
  b.graph().results = {last, first, sum};
  if (seen) b.graph().results.push_back(norm);
  return b;
}

TEST(GpuSchedule, quantizations_join_the_norm_that_they_read) {
  const Names rest = {"dequantize", "dequantize"};
  EXPECT_EQ(norm_and_tiles(5, 64, "mxfp4", false).steps(),
            (Names{"norm and tiles(add, add, layernorm, quantize, quantize)", rest[0], rest[1]}));
  EXPECT_EQ(norm_and_tiles(5, 416, "mxfp4", false).steps(),
            (Names{"elements(add, add)", "layernorm", "tiles(quantize, quantize)", rest[0], rest[1]}));
}

TEST(GpuSchedule, parameters_are_updated_together_and_their_gradients_clipped_on_the_way) {
  Builder b(1);
  const ValueId norm = b.parameter({});
  ValueId seen = kNoValue;
  for (int i = 0; i < 50; ++i) {
    const ValueId p = b.parameter({i * 37 % 23, 16});
    const ValueId g = b.node(Op::clip, {b.parameter({i * 37 % 23, 16}), norm, b.step()});
    if (i == 3) seen = g;
    b.update(p, g, i % 2 * 0.1);
  }
  b.graph().results = {seen};
  EXPECT_EQ(b.steps(), (Names{"optimizer(clip, adamw) x 48", "clip", "adamw", "optimizer(clip, adamw)"}));
}

/// The way back through a projection to heads: layernorm_grad between sums of gradients, and a bias on its way out.
Builder gradients(int64_t rows, int64_t width) {
  Builder b(4);
  const Shape shape{rows, width};
  const ValueId x = b.parameter(shape), g = b.parameter({width}), bias = b.parameter({width});
  const ValueId other = b.node(Op::scale, {b.parameter(shape)}, {{"factor", 0.5}});
  const ValueId dy = b.node(Op::add, {b.parameter(shape), b.parameter(shape)});
  const auto grads = [&](ValueId gradient) {
    return add_node(b.graph(), Op::layernorm_grad, {gradient, x, g}, {{kNormAttr, 1e-5}});
  };
  const std::vector<ValueId> first = grads(dy);
  const ValueId sum = b.node(Op::add, {other, first[0]});
  const std::vector<ValueId> second = grads(sum);
  const ValueId last = b.node(Op::add, {second[0], sum});
  const std::string half = std::to_string(width / 2), all = std::to_string(rows);
  const ValueId heads = b.node(Op::permute, {b.node(Op::add, {last, bias})},
                               {{"view", all + ",2," + half}, {"perm", "1,0,2"}, {"shape", "2," + all + "," + half}});
  b.graph().results = {first[1], first[2], second[1], second[2], sum, last, heads};
  return b;
}

TEST(GpuSchedule, sums_of_gradients_join_their_norm) {
  EXPECT_EQ(gradients(5, 64).steps(), (Names{"scale", "norm and sums(add, layernorm_grad, add)",
                                             "norm and sums(layernorm_grad, add)", "add", "permute"}));
}

/// A gradient and its three readers.
Builder readers(const char* spec) {
  Builder b(1);
  const ValueId dy = b.node(Op::gelu_grad, {b.parameter({64, 64}), b.parameter({64, 64})});
  const ValueId sum = b.node(Op::column_sum, {dy}, {{"columns", int64_t{64}}});
  const auto packed = [&](const char* axis) {
    return b.node(Op::dequantize, {b.node(Op::quantize, {dy}, {{"spec", spec}, {"axis", axis}})});
  };
  const ValueId last = packed("last"), first = packed("first");
  b.graph().results = {last, first, sum};
  return b;
}

TEST(GpuSchedule, the_readers_of_a_gradient_join_it) {
  EXPECT_EQ(readers("mxfp4").steps(),
            (Names{"tiles(gelu_grad, column_sum, quantize, quantize)", "dequantize", "dequantize"}));
  EXPECT_EQ(readers("nvfp4").steps(),
            (Names{"tiles(gelu_grad, column_sum)", "quantize", "dequantize", "quantize", "dequantize"}));
}

TEST(GpuSchedule, two_quantizations_of_one_tensor_join) {
  Builder b(1);
  const ValueId x = b.parameter({64, 64});
  const auto packed = [&](const char* axis) {
    return b.node(Op::dequantize, {b.node(Op::quantize, {x}, {{"spec", "mxfp4"}, {"axis", axis}})});
  };
  const ValueId last = packed("last"), first = packed("first");
  b.graph().results = {last, first};
  EXPECT_EQ(b.steps(), (Names{"tiles(quantize, quantize)", "dequantize", "dequantize"}));
}

TEST(GpuSchedule, a_value_that_a_later_node_reads_from_memory_ends_the_chain) {
  Builder b(1);
  const ValueId x = b.parameter({4, 8});
  const ValueId y = b.node(Op::add, {x, x}), z = b.node(Op::gelu, {y});
  b.graph().results = {b.node(Op::mul, {z, y})};
  EXPECT_EQ(b.steps(), (Names{"elements(add, gelu)", "mul"}));
  Builder twice(1);
  const ValueId v = twice.node(Op::scale, {twice.parameter({4, 8})}, {{"factor", 2.0}});
  twice.graph().results = {twice.node(Op::mul, {v, v})};
  EXPECT_EQ(twice.steps(), (Names{"scale", "mul"}));
}

TEST_F(GpuPlans, blocks_of_every_width_give_the_bits_of_scalar) {
  for (const int64_t width : {1, 7, 32, 100, 129, 384, 385, 1100})
    expect_bits_of_scalar(block(9, width), "width " + std::to_string(width));
}

TEST_F(GpuPlans, norms_and_their_quantizations_give_the_bits_of_scalar) {
  for (const int64_t width : {32, 64, 128, 160, 256, 320, 384})
    for (const int64_t rows : {1, 16, 31, 64, 200})
      for (const bool seen : {false, true}) {
        const char* const spec = width == 160 ? "e2m1:b16:e8m0/ceil:rne" : "mxfp4";
        expect_bits_of_scalar(norm_and_tiles(rows, width, spec, seen), std::to_string(rows) + " rows");
      }
}

TEST_F(GpuPlans, gradients_of_every_width_give_the_bits_of_scalar) {
  for (const int64_t width : {2, 8, 32, 130, 384, 400, 514, 1100})
    expect_bits_of_scalar(gradients(width == 32 ? 2100 : 9, width), "width " + std::to_string(width));
}

TEST_F(GpuPlans, updates_of_many_parameters_give_the_bits_of_scalar) {
  for (const bool clips : {true, false}) {
    Builder b(2);
    const ValueId norm = b.parameter({});
    for (int i = 0; i < 120; ++i) {
      const Shape shape = i == 70 ? Shape{3, 5000} : Shape{i % 7, i * 3 + 1};
      const ValueId p = b.parameter(shape), g = b.parameter(shape);
      b.update(p, clips ? b.node(Op::clip, {g, norm, b.step()}) : g, i % 3 * 0.1);
    }
    expect_bits_of_scalar(b, "updates");
  }
}

/// A graph of element-wise nodes on matrices, layernorms among them, whose memory the executor uses again and again.
Builder random_graph(uint64_t seed) {
  Builder b(seed);
  auto& random = b.random();
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  const int64_t rows = static_cast<int64_t>(1 + below(9)), width = static_cast<int64_t>(1 + below(70));
  std::vector<ValueId> values = {b.parameter({rows, width}), b.parameter({rows, width})};
  const ValueId bias = b.parameter({width}), gain = b.parameter({width});
  const auto any = [&] { return values[values.size() - 1 - std::min(below(values.size()), below(values.size()))]; };
  for (int i = 0; i < 24; ++i) {
    const ValueId x = any();
    switch (below(13)) {
      case 0: values.push_back(b.node(Op::add, {x, bias})); break;
      case 1: values.push_back(b.node(Op::add, {x, any()})); break;
      case 2: values.push_back(b.node(Op::add, {any(), x})); break;
      case 3: values.push_back(b.node(Op::mul, {x, any()})); break;
      case 4: values.push_back(b.node(Op::scale, {x}, {{"factor", 0.7}})); break;
      case 5: values.push_back(b.node(below(2) == 0 ? Op::gelu : Op::silu, {x})); break;
      case 6: values.push_back(b.node(below(2) == 0 ? Op::gelu_grad : Op::silu_grad, {x, any()})); break;
      case 7: values.push_back(b.node(below(2) == 0 ? Op::gelu_grad : Op::silu_grad, {any(), x})); break;
      case 8: values.push_back(b.rounded(x)); break;
      case 9: values.push_back(b.node(Op::layernorm, {x, gain, bias}, {{kNormAttr, 1e-5}})); break;
      case 11: {
        const ValueId q = b.node(Op::quantize, {x}, {{"spec", "bf16"}, {"axis", below(2) == 0 ? "last" : "first"}});
        values.push_back(b.node(Op::dequantize, {q}));
        if (below(2) == 0) values.push_back(b.node(Op::dequantize, {q}));
        break;
      }
      case 10: {
        const auto all = add_node(b.graph(), Op::layernorm_grad, {x, any(), gain}, {{kNormAttr, 1e-5}});
        values.push_back(all[0]);
        b.graph().results.insert(b.graph().results.end(), {all[1], all[2]});
        break;
      }
      default:
        values.push_back(b.node(Op::permute, {x},
                                {{"view", std::to_string(rows) + "," + std::to_string(width)},
                                 {"perm", "1,0"},
                                 {"shape", std::to_string(rows) + "," + std::to_string(width)}}));
    }
  }
  for (const ValueId v : {values.back(), values[values.size() / 2]}) b.graph().results.push_back(v);
  return b;
}

TEST_F(GpuPlans, random_graphs_give_the_bits_of_scalar) {
  size_t nodes = 0, steps = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Builder b = random_graph(seed);
    nodes += Builder(b).graph().nodes.size();
    steps += b.steps().size();
    expect_bits_of_scalar(b, "seed " + std::to_string(seed));
  }
  EXPECT_LT(steps, nodes * 9 / 10) << "hardly anything joins";
}

TEST(GpuLanes, keep_every_order_that_matters) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Builder builder = random_graph(seed);  // the steps point into its graph
    const std::vector<gpu::Step> steps = builder.schedule();
    for (const size_t lanes : {1, 2, 5}) {
      const std::vector<gpu::Placement> placements = gpu::place(steps, lanes);
      std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size()));  // [s][d]: d is over
      const auto follow = [&](size_t s, size_t d) {
        before[s][d] = true;
        for (size_t e = 0; e < d; ++e) before[s][e] = before[s][e] || before[d][e];
      };
      std::vector<std::optional<size_t>> tails(lanes);
      bool parallel = false;
      for (size_t s = 0; s < steps.size(); ++s) {
        std::optional<size_t>& tail = tails.at(placements[s].lane);
        if (tail) follow(s, *tail);
        for (const size_t d : placements[s].waits) follow(s, d);
        tail = s;
        for (size_t d = 0; d < s; ++d) {
          parallel = parallel || !before[s][d];
          if (gpu::conflict(gpu::accesses(steps[s]), gpu::accesses(steps[d]))) {
            ASSERT_TRUE(before[s][d]) << "seed " << seed << ": steps " << d << " and " << s;
          }
        }
      }
      EXPECT_TRUE(lanes > 1 || !parallel);
    }
  }
}

}  // namespace
}  // namespace fp4sim::test
