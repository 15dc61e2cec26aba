// The golden files are what every backend computes; a changed bit, a missing line and a foreign line are all found.
#include "fuzz/golden.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "fuzz/golden_training.h"
#include "fuzz/sabotaged_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::fuzz {
namespace {

const std::string kDirectory = std::string(FP4SIM_GOLDEN_DIR) + "/run";

std::string joined(const GoldenReport& report) {
  std::string text;
  for (const std::string& line : report.differences) text += line + "\n";
  return text;
}

TEST(Golden, scalar_computes_the_stored_lines) {
  const auto scalar = scalar::make_backend();
  const GoldenReport report = check_golden_ops(*scalar, *scalar, kDirectory);
  EXPECT_TRUE(report.differences.empty()) << joined(report);
  EXPECT_GT(report.rows, 500);
}

TEST(Golden, every_simd_level_computes_the_stored_lines) {
  const auto maker = scalar::make_backend();
  for (const simd::Level level : simd::available_levels()) {
    const GoldenReport report = check_golden_ops(*simd::make_backend(level, 2), *maker, kDirectory);
    EXPECT_TRUE(report.differences.empty()) << simd::to_string(level) << "\n" << joined(report);
  }
}

TEST(Golden, simd_repeats_the_stored_training_runs) {
  const GoldenReport report = check_golden_training(*simd::make_backend(2), kDirectory);
  EXPECT_TRUE(report.differences.empty()) << joined(report);
  EXPECT_EQ(report.rows, static_cast<int64_t>(golden_runs().size()));
}

TEST(Golden, every_op_has_cases_and_no_case_is_listed_twice) {
  std::set<Op> ops;
  std::set<std::string> lines;
  for (const CaseParameters& p : golden_cases()) {
    ops.insert(p.op);
    EXPECT_TRUE(lines.insert(to_string(p)).second) << to_string(p);
  }
  EXPECT_EQ(ops.size(), static_cast<size_t>(kOpCount));
}

TEST(Golden, the_cases_hold_every_row_of_every_table) {
  std::set<std::string> elements;
  std::set<Granularity> granularities;
  std::set<std::pair<ScaleFormat, ScaleRule>> rules;
  std::set<Rounding> roundings;
  std::set<EstimatorKind> estimators;
  bool bias_auto = false, sr34 = false, amax = false, any_code = false;
  for (const CaseParameters& p : golden_cases()) {
    if (p.op == Op::estimator_grad) estimators.insert(parse_estimator(p.args.text("estimator")).kind);
    any_code = any_code || (p.op == Op::dequantize && p.args.integer("codes") == 2);
    if (p.op != Op::quantize) continue;
    const QuantSpec s = parse_quant_spec(p.args.text("spec"));
    elements.insert(format_name(s.element));
    granularities.insert(s.granularity);
    rules.insert({s.scale, s.rule});
    roundings.insert(s.rounding);
    bias_auto = bias_auto || s.element.bias_auto;
    sr34 = sr34 || s.sr34;
    amax = amax || p.args.has("amax");
  }
  for (const ElementFormatRow& row : kElementFormats) EXPECT_TRUE(elements.contains(row.name)) << row.name;
  for (const ScaleRuleRow& row : kScaleRules) EXPECT_TRUE(rules.contains({row.scale, row.rule})) << row.name;
  for (const ScaleRule rule : {ScaleRule::te, ScaleRule::exact, ScaleRule::one})
    EXPECT_TRUE(rules.contains({ScaleFormat::ue, rule}));
  for (const RoundingRow& row : kRoundings) EXPECT_TRUE(roundings.contains(row.rounding)) << row.name;
  for (const EstimatorRow& row : kEstimators) EXPECT_TRUE(estimators.contains(row.kind)) << row.name;
  EXPECT_EQ(granularities.size(), 6u);
  EXPECT_TRUE(bias_auto && sr34 && amax && any_code);
}

TEST(Golden, a_wrong_backend_a_missing_line_and_a_foreign_line_are_found) {
  const auto maker = scalar::make_backend();
  const auto wrong = make_sabotaged(scalar::make_backend(), "bf16_truncated");
  EXPECT_FALSE(check_golden_ops(*wrong, *maker, kDirectory).differences.empty());

  const std::filesystem::path copy = std::filesystem::temp_directory_path() / "fp4sim_golden_copy";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(kDirectory, copy, std::filesystem::copy_options::recursive);
  const std::filesystem::path file = copy / "ops" / "silu.txt";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::string lines = text.str();
  const size_t at = lines.find("silu ");
  lines.replace(at, 4, "gelu");  // one line lost, another that no case asks for
  std::ofstream(file) << lines;
  const GoldenReport report = check_golden_ops(*maker, *maker, copy.string());
  EXPECT_EQ(report.differences.size(), 2u) << joined(report);
  std::filesystem::remove_all(copy);
}

TEST(Golden, the_files_stay_below_one_megabyte) {
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kDirectory))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_LT(bytes, 1000000u);
}

}  // namespace
}  // namespace fp4sim::fuzz
