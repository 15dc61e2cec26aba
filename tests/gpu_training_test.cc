// A training step of a model that fills the device, on any number of lanes: the same bits, and the time of a step.
#include <algorithm>
#include <bit>
#include <chrono>
#include <iostream>
#include <random>

#include "cli/train/executor.h"
#include "cli/train/recipe.h"
#include "cli/train/training_step.h"
#include "pch.h"
#include "tests/gpu_device.h"

namespace fp4sim::test {
namespace {

class GpuTraining : public NeedsDevice<> {};

/// True if all numbers have the same bits; NaN equals NaN.
bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (x != x && y != y);
  };
  return std::ranges::equal(a, b, [&](const auto& x, const auto& y) { return std::ranges::equal(x, y, same); });
}

/// Loss and norm of the gradients after three steps, then all parameters, and the milliseconds of one step.
struct Trained {
  std::vector<std::vector<float>> values;
  double milliseconds;
};
Trained train_on_lanes(const std::string& recipe, int lanes) {
  train::ModelConfig config;
  config.layers = 6, config.heads = 6, config.width = 384, config.context = 256, config.vocab = 65;
  config = train::resolved(config);
  train::StepOptions options;
  options.batch = 64;
  train::TrainingStep step = train::build_training_step(config, train::load_recipe(recipe), options);
  const auto backend = gpu::make_backend({.device = 0, .lanes = lanes});
  train::ValueStore store(*backend);
  std::mt19937 random(5);
  for (const train::ParameterInfo& info : train::parameter_infos(config)) {
    store.ensure(info.name, {DType::f32, info.shape, {}, Axis::last});
    const bool drawn = info.init != train::ParameterInfo::Init::one && info.init != train::ParameterInfo::Init::zero;
    std::vector<float> values(static_cast<size_t>(element_count(info.shape)));
    for (float& v : values)
      v = drawn ? static_cast<float>(static_cast<int>(random() >> 20) - 2048) * 1e-5f
                : (info.init == train::ParameterInfo::Init::one ? 1.0f : 0.0f);
    store.upload(info.name, values);
  }
  train::Executor executor(*backend, step.graph, store);
  std::vector<int32_t> tokens(static_cast<size_t>(options.batch * config.context));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % 65);
  for (const auto& inputs : {step.ids, step.targets})
    executor.set_input(inputs[0], tokens.data(), static_cast<int64_t>(tokens.size() * sizeof(int32_t)));
  const StepInfo info{.lr = 1e-3, .beta1_power = 0.9, .beta2_power = 0.99};
  executor.set_input(step.step, &info, sizeof info);
  for (int i = 0; i < 3; ++i) executor.run();
  Trained trained{{executor.read(step.loss), executor.read(step.grad_norm)}, 0};
  constexpr int kTimed = 10;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimed; ++i) executor.run();
  backend->synchronize();
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
  trained.milliseconds = passed.count() / kTimed;
  for (const train::ParameterInfo& p : train::parameter_infos(config)) trained.values.push_back(store.download(p.name));
  return trained;
}

TEST_F(GpuTraining, a_training_step_gives_the_same_bits_on_any_number_of_lanes) {
  for (const char* recipe : {"mxfp4-ste", "fp4-dge-occ"}) {
    const Trained one = train_on_lanes(recipe, 1);
    std::cout << recipe << ": milliseconds a step on 1 lane: " << one.milliseconds;
    for (const int lanes : {2, 3, 4, 6}) {
      const Trained more = train_on_lanes(recipe, lanes);
      std::cout << ", " << lanes << ": " << more.milliseconds;
      EXPECT_TRUE(same_bits(more.values, one.values)) << recipe << ' ' << lanes;
    }
    std::cout << std::endl;
  }
}

}  // namespace
}  // namespace fp4sim::test
