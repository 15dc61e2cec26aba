// golden/cases: every stored case replays on every backend, and a case named after a mutant catches that mutant.
#include <algorithm>
#include <filesystem>

#include "fuzz/case_file.h"
#include "fuzz/differential.h"
#include "fuzz/sabotaged_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::fuzz {
namespace {

std::filesystem::path cases_directory() { return std::filesystem::path(FP4SIM_GOLDEN_DIR) / "cases"; }

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(cases_directory()))
    if (entry.path().extension() == ".case") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Case stored_case(const std::string& name) {
  std::filesystem::path path = cases_directory() / name;
  return load_case(path.replace_extension("case").string());
}

class StoredCases : public testing::TestWithParam<std::string> {};

TEST_P(StoredCases, replays_on_scalar_and_every_simd_level) {
  const Case c = stored_case(GetParam());
  const std::optional<Mismatch> on_scalar = replay_case(*scalar::make_backend(), c);
  EXPECT_FALSE(on_scalar) << to_string(*on_scalar);
  for (const simd::Level level : simd::available_levels()) {
    const std::optional<Mismatch> on_simd = replay_case(*simd::make_backend(level, 2), c);
    EXPECT_FALSE(on_simd) << to_string(*on_simd);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoredCases, testing::ValuesIn(case_names()), [](const auto& row) { return row.param; });

class MutantCases : public testing::TestWithParam<Mutant> {};

TEST_P(MutantCases, the_case_named_after_it_catches_it) {
  const Case c = stored_case(GetParam().name);
  const auto wrong = make_sabotaged(scalar::make_backend(), GetParam().name);
  // A stale output shows from the second run of the op on; the first one here has other inputs.
  const auto maker = scalar::make_backend();
  (void)run_case(*wrong, build_case(draw_case(c.op, 3), *maker));
  const std::optional<Mismatch> mismatch = replay_case(*wrong, c);
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->op, GetParam().op);
}

INSTANTIATE_TEST_SUITE_P(All, MutantCases, testing::ValuesIn(mutants()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace fp4sim::fuzz
