// The real program under differential test: every recipe trains in lockstep on scalar and simd without a difference,
// and a fault planted in one side stops the run at its op.
#include "fuzz/golden_training.h"
#include "fuzz/lockstep_backend.h"
#include "fuzz/mismatch.h"
#include "fuzz/sabotaged_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::fuzz {
namespace {

constexpr int64_t kSteps = 20;

class EndToEnd : public testing::TestWithParam<TrainingRun> {};

TEST_P(EndToEnd, lockstep_of_scalar_and_simd_never_differs) {
  TrainingRun run = GetParam();
  run.steps = kSteps;
  const auto pair = make_lockstep(scalar::make_backend(), simd::make_backend(2), {LockstepMode::chain, ""});
  const TrainingTrace trace = trace_training(*pair, run);
  ASSERT_EQ(trace.losses.size(), static_cast<size_t>(kSteps));
  for (const double loss : trace.losses) EXPECT_TRUE(std::isfinite(loss));
}

INSTANTIATE_TEST_SUITE_P(Recipes, EndToEnd, testing::ValuesIn(golden_runs()), [](const auto& row) {
  std::string name = row.param.recipe + "_" + row.param.model;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

struct PlantedFault {
  const char* mutant;
  Op op;
};

TEST(EndToEndFaults, a_planted_fault_stops_the_run_at_its_op) {
  for (const PlantedFault& fault : {PlantedFault{"scale_plus_one", Op::quantize},
                                    {"one_row_too_many", Op::cross_entropy_grad},
                                    {"dge_wrong_clip", Op::estimator_grad},
                                    {"eps_omitted", Op::rmsnorm}}) {
    const auto pair = make_lockstep(simd::make_backend(2), make_sabotaged(simd::make_backend(2), fault.mutant),
                                    {LockstepMode::chain, ""});
    try {
      (void)trace_training(*pair, {"fp4-dge-occ", "llama", 2});
      FAIL() << fault.mutant << " was not found";
    } catch (const MismatchError& e) {
      EXPECT_EQ(e.mismatch().op, fault.op) << e.what();
      EXPECT_FALSE(e.mismatch().node.empty());
    }
  }
}

}  // namespace
}  // namespace fp4sim::fuzz
