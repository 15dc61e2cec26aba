// Step-0 loss and every parameter's gradient of gpt and llama against PyTorch (golden/spec/torch_*.safetensors): truth
// that fp4sim did not produce. A tolerance is right here: PyTorch sums in another order (fp32 files: binary64 sums).
#include <fmt/format.h>

#include "cli/io/safetensors.h"
#include "cli/train/executor.h"
#include "cli/train/trainer.h"
#include "cli/train/training_step.h"
#include "reference/contract/step_info.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::train {
namespace {

struct Case {
  const char* name;
  const char* file;
  const char* recipe;
  const char* product;
  double tolerance;
};

ModelConfig config_of(const std::map<std::string, std::string>& m) {
  ModelConfig c;
  c.kind = m.at("model");
  c.layers = std::stoll(m.at("layers"));
  c.heads = std::stoll(m.at("heads"));
  c.kv_heads = std::stoll(m.at("kv_heads"));
  c.width = std::stoll(m.at("width"));
  c.hidden = std::stoll(m.at("hidden"));
  c.context = std::stoll(m.at("context"));
  c.vocab = std::stoll(m.at("vocab"));
  c.tied_head = c.kind == "gpt";
  c.norm_eps = std::stod(m.at("norm_eps"));
  c.rope_theta = std::stod(m.at("rope_theta"));
  return resolved(c);
}

double norm(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

class OutsideTruth : public testing::TestWithParam<Case> {
 protected:
  void compare_on(Backend& backend) {
    const io::SafetensorsFile file(fmt::format("{}/spec/{}", FP4SIM_GOLDEN_DIR, GetParam().file));
    // The two files of a model share their parameters and tokens: one has them, the other names it.
    const auto named = file.metadata().find("parameters");
    const io::SafetensorsFile inputs(
        fmt::format("{}/spec/{}", FP4SIM_GOLDEN_DIR, named == file.metadata().end() ? GetParam().file : named->second));
    const ModelConfig config = config_of(file.metadata());
    Recipe recipe = load_recipe(GetParam().recipe);
    recipe.product_exact = std::string(GetParam().product) == "exact";
    StepOptions options;
    options.batch = std::stoll(file.metadata().at("batch"));
    const TrainingStep step = build_training_step(config, recipe, options, Stage::packed);
    ValueStore store(backend);
    Executor executor(backend, step.graph, store);
    upload_constants(store, config);
    for (const ParameterInfo& info : parameter_infos(config)) {
      const io::HostTensor t = inputs.read("param/" + info.name);
      store.upload(info.name, {t.as<float>().begin(), t.as<float>().end()});
    }
    const StepInfo info;
    executor.set_input(step.step, &info, sizeof(info));
    const io::HostTensor tokens = inputs.read("tokens"), targets = inputs.read("targets");
    executor.set_input(step.ids[0], tokens.bytes.data(), static_cast<int64_t>(tokens.bytes.size()));
    executor.set_input(step.targets[0], targets.bytes.data(), static_cast<int64_t>(targets.bytes.size()));
    executor.run();

    const double loss = std::strtod(file.metadata().at("loss_hex").c_str(), nullptr);
    EXPECT_LE(std::abs(executor.read(step.loss)[0] - loss) / loss, GetParam().tolerance);
    double worst = 0;
    for (const auto& [name, value] : step.gradients) {
      const io::HostTensor expected = file.read("grad/" + name);
      const std::vector<float> actual = executor.read(value);
      std::vector<float> difference(actual.size());
      for (size_t i = 0; i < actual.size(); ++i) difference[i] = actual[i] - expected.as<float>()[i];
      // A key bias shifts all scores of a row alike: its gradient is zero but for rounding, so its weight's is the
      // scale.
      const bool key_bias = name.ends_with(".attn.k.bias");
      std::string scale_name = "grad/";
      scale_name.append(key_bias ? name.substr(0, name.rfind('.')).append(".weight") : name);
      const io::HostTensor scale = file.read(scale_name);
      const double error = norm(difference) / norm(scale.as<float>());
      EXPECT_LE(error, GetParam().tolerance) << name;
      worst = std::max(worst, error);
    }
    std::printf("%s, %s: largest relative deviation of a gradient %.2e\n", GetParam().file, backend.name().c_str(),
                worst);
  }
};

TEST_P(OutsideTruth, loss_and_every_gradient_agree_on_scalar) { compare_on(*scalar::make_backend()); }
TEST_P(OutsideTruth, loss_and_every_gradient_agree_on_simd) { compare_on(*simd::make_backend()); }

INSTANTIATE_TEST_SUITE_P(PyTorch, OutsideTruth,
                         testing::Values(Case{"gpt", "torch_gpt.safetensors", "fp32", "exact", 1e-5},
                                         Case{"llama", "torch_llama.safetensors", "fp32", "exact", 1e-5},
                                         Case{"gpt_mxfp4", "torch_gpt_mxfp4.safetensors", "mxfp4-ste", "fake", 1e-4},
                                         Case{"llama_mxfp4", "torch_llama_mxfp4.safetensors", "mxfp4-ste", "fake",
                                              1e-4}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace fp4sim::train
