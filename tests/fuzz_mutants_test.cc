// Every named fault is caught by differential cases of its op within the number of cases in its row, and by no other
// op.
#include "fuzz/differential.h"
#include "fuzz/sabotaged_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"

namespace fp4sim::fuzz {
namespace {

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, is_caught_by_the_name_of_its_op_within_its_number_of_cases) {
  const Mutant& mutant = GetParam();
  const auto oracle = scalar::make_backend();
  const auto wrong = make_sabotaged(scalar::make_backend(), mutant.name);
  DifferentialOptions options;
  options.op_glob = op_name(mutant.op);
  options.seed = 1;
  options.iterations = mutant.cases;
  options.shrink = false;
  const DifferentialReport report = fuzz_ops(*wrong, *oracle, options);
  ASSERT_EQ(report.ops.size(), 1u);
  ASSERT_FALSE(report.ok()) << mutant.what << ": not found in " << mutant.cases << " cases of " << op_name(mutant.op);
  EXPECT_EQ(report.ops[0].failures[0].mismatch.op, mutant.op);
  RecordProperty("cases", static_cast<int>(report.ops[0].cases));
}

TEST_P(Mutants, leaves_every_other_op_as_it_is) {
  const Mutant& mutant = GetParam();
  const auto oracle = scalar::make_backend();
  const auto wrong = make_sabotaged(scalar::make_backend(), mutant.name);
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (op == mutant.op) continue;
    EXPECT_FALSE(run_differential(*wrong, *oracle, build_case(draw_case(op, 5), *oracle))) << op_name(op);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, testing::ValuesIn(mutants()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Shrinking, ends_at_a_small_case_that_still_fails) {
  const auto oracle = scalar::make_backend();
  const auto wrong = make_sabotaged(scalar::make_backend(), "scale_plus_one");
  const CaseParameters p = parse_parameters(
      "quantize dist=wide seed=3 axis=first batch=2 k=70 m=9 row_offset=5 spec=e3m2:b32:e8m0/ceil:rnz");
  const Failure failure = shrink_failure(*wrong, *oracle, p);
  EXPECT_EQ(to_string(failure.parameters),
            "quantize dist=bell seed=3 axis=first batch=0 k=1 m=1 row_offset=5 spec=e2m1:b16:e8m0/floor:rne");
  EXPECT_TRUE(replay_case(*wrong, failure.shrunk));
  EXPECT_FALSE(replay_case(*oracle, failure.shrunk));
}

TEST(MutantNames, an_unknown_name_is_a_usage_error_that_lists_the_known_ones) {
  try {
    (void)make_sabotaged(scalar::make_backend(), "no_such_fault");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("tie_away"), std::string::npos);
  }
}

}  // namespace
}  // namespace fp4sim::fuzz
