// Plans of several nodes on the cuda backend: graphs for tests, the steps that they become, and the comparison with
// scalar of every value that somebody sees.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <random>

#include "cli/train/executor.h"
#include "gpu/schedule.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "tests/gpu_device.h"

namespace fp4sim::test {

/// A graph whose values are all f32 and whose contents are drawn from its seed.
class Builder {
 public:
  /// One of `special_in` values drawn may be anything, NaN and infinities among it; 0: none.
  explicit Builder(uint64_t seed, unsigned special_in = 97)
      : random_(seed), seed_(static_cast<unsigned>(seed)), special_in_(special_in) {
    step_ = add_value(graph_, step_type(), ValueKind::input, "step");
  }

  ValueId parameter(Shape shape) {
    const std::string name = "p" + std::to_string(names_.size());
    names_.push_back(name);
    return add_value(graph_, {DType::f32, std::move(shape), {}, Axis::last}, ValueKind::parameter, name);
  }
  ValueId node(Op op, std::vector<ValueId> in, Attrs attrs = {}) {
    return add_node(graph_, op, std::move(in), std::move(attrs)).front();
  }
  ValueId rounded(ValueId v) { return node(Op::cast, {node(Op::cast, {v}, {{"to", "bf16"}})}, {{"to", "f32"}}); }
  void update(ValueId p, ValueId g, double decay) {
    const ValueType type = graph_.type(p);
    const ValueId m = state(type), v = state(type);
    add_node(graph_, Op::adamw, {p, m, v, g, step_},
             {{"weight_decay", decay}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}});
  }
  ValueId state(const ValueType& type) {
    const std::string name = "p" + std::to_string(names_.size());
    names_.push_back(name);
    return add_value(graph_, type, ValueKind::state, name);
  }
  ValueId step() const { return step_; }
  Graph& graph() { return graph_; }

  /// The steps of the plan that the executor makes. Needs no device; the tensors have no memory.
  std::vector<gpu::Step> schedule() const {
    struct NoMemory : Buffer {};
    const train::MemoryPlan plan = train::plan_memory(graph_, 4);
    static std::deque<NoMemory> owned;  // accesses compare their addresses
    while (owned.size() < graph_.values.size()) owned.emplace_back();
    static NoMemory arena;
    std::vector<Tensor> tensors;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const bool temporary = graph_.values[v].kind == ValueKind::temporary;
      tensors.push_back(place_tensor(graph_.values[v].type, temporary ? &arena : &owned[v],
                                     temporary ? std::max<int64_t>(plan.offsets[v], 0) : 0));
    }
    return gpu::schedule({graph_, tensors});
  }
  std::vector<std::string> steps() const {
    std::vector<std::string> names;
    for (const gpu::Step& step : schedule()) names.push_back(gpu::to_string(step));
    return names;
  }

  /// The results, then all parameters and states, after two runs on a backend.
  std::vector<std::vector<float>> run(Backend& backend) {
    train::ValueStore store(backend);
    train::Executor executor(backend, graph_, store);
    std::mt19937 random(seed_);  // the same contents on every backend
    for (const Value& value : graph_.values)
      if (value.kind != ValueKind::temporary && value.kind != ValueKind::input)
        store.upload(value.name, drawn(element_count(value.type.shape), value.kind, random));
    const StepInfo info{
        .step = 3, .lr = 1e-2, .beta1_power = 0.729, .beta2_power = 0.97, .loss_scale = 8, .clip_norm = 0.5f};
    executor.set_input(step_, &info, sizeof info);
    executor.run();
    executor.run();
    std::vector<std::vector<float>> values;
    for (const ValueId v : graph_.results) values.push_back(executor.read(v));
    for (const Value& value : graph_.values)
      if (value.kind != ValueKind::temporary && value.kind != ValueKind::input)
        values.push_back(store.download(value.name));
    return values;
  }

  std::mt19937_64& random() { return random_; }

 private:
  /// Small numbers, and a few infinities, NaN, zeros and subnormals. Second moments are not negative.
  std::vector<float> drawn(int64_t n, ValueKind kind, std::mt19937& random) const {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) {
      v = static_cast<float>(static_cast<int>(random() >> 8) - (1 << 23)) * 0x1p-21f;
      if (kind == ValueKind::state)
        v = std::fabs(v);
      else if (special_in_ > 0 && random() % special_in_ == 0)
        v = std::bit_cast<float>(static_cast<uint32_t>(random()));
    }
    return x;
  }

  Graph graph_;
  ValueId step_;
  std::vector<std::string> names_;
  std::mt19937_64 random_;
  unsigned seed_, special_in_;
};

/// The fixture of tests that run plans.
class GpuPlans : public NeedsDevice<> {
 protected:
  static void expect_bits_of_scalar(Builder builder, const std::string& what) {
    Builder again = builder;
    const auto want = builder.run(*scalar::make_backend());
    for (const int lanes : {1, 3, 7}) {
      Builder copy = again;
      const auto got = copy.run(*gpu::make_backend({.device = 0, .threads = 32 * lanes, .lanes = lanes}));
      ASSERT_EQ(got.size(), want.size());
      for (size_t v = 0; v < want.size(); ++v)
        for (size_t i = 0; i < want[v].size(); ++i) {
          const float a = got[v][i], e = want[v][i];
          ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(e) || (a != a && e != e))
              << what << ": value " << v << " element " << i << " is " << a << ", expected " << e;
        }
    }
  }
};

}  // namespace fp4sim::test
