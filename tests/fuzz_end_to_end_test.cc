// The real program under differential test: every recipe trains both models in lockstep of scalar and each simd level.
#include "cli/train/recipe.h"
#include "fuzz/golden_training.h"
#include "fuzz/lockstep_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::fuzz {
namespace {

constexpr int64_t kSteps = 20;

struct Row {
  std::string recipe, model;
  simd::Level level;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const simd::Level level : simd::available_levels())
    for (const char* model : {"gpt", "llama"})
      for (const std::string& recipe : train::recipe_names()) all.push_back({recipe, model, level});
  return all;
}

class EndToEnd : public testing::TestWithParam<Row> {};

TEST_P(EndToEnd, lockstep_of_scalar_and_simd_never_differs) {
  const Row& row = GetParam();
  const auto pair = make_lockstep(scalar::make_backend(), simd::make_backend(row.level, 2), {LockstepMode::chain, ""});
  const TrainingTrace trace = trace_training(*pair, {row.recipe, row.model, kSteps});
  ASSERT_EQ(trace.losses.size(), static_cast<size_t>(kSteps));
  for (const double loss : trace.losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_EQ(simd::last_level_run(), row.level);
}

INSTANTIATE_TEST_SUITE_P(Recipes, EndToEnd, testing::ValuesIn(rows()), [](const auto& row) {
  std::string name = row.param.recipe + "_" + row.param.model + "_" + simd::to_string(row.param.level);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

}  // namespace
}  // namespace fp4sim::fuzz
