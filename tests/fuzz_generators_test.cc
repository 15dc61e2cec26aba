// The generators: deterministic, valid for every op, with a text form, and shrinking towards small cases.
#include "fuzz/generators.h"

#include <map>

#include "fuzz/case_builder.h"
#include "fuzz/elements.h"
#include "fuzz/specs.h"
#include "pch.h"
#include "reference/contract/error.h"
#include "reference/contract/reduction_order.h"
#include "reference/scalar/backend.h"

namespace fp4sim::fuzz {
namespace {

RC_GTEST_PROP(Generators, a_case_is_a_pure_function_of_its_parameters_and_their_text, (uint32_t seed)) {
  const auto op = static_cast<Op>(*rc::gen::inRange(0, kOpCount));
  const auto maker = scalar::make_backend();
  const CaseParameters p = draw_case(op, seed);
  RC_ASSERT(p == draw_case(op, seed));
  const CaseParameters parsed = parse_parameters(to_string(p));
  RC_ASSERT(to_string(parsed) == to_string(p));
  const Case a = build_case(p, *maker), b = build_case(parsed, *maker);
  RC_ASSERT(describe(a) == describe(b));
  for (size_t i = 0; i < a.inputs.size(); ++i) RC_ASSERT(a.inputs[i].parts == b.inputs[i].parts);
}

RC_GTEST_PROP(Generators, every_simpler_case_is_a_valid_case, (uint32_t seed)) {
  const auto op = static_cast<Op>(*rc::gen::inRange(0, kOpCount));
  const auto maker = scalar::make_backend();
  for (const CaseParameters& p : simpler_cases(draw_case(op, seed))) (void)output_types(build_case(p, *maker));
}

TEST(Generators, draw_every_computable_scale_rule_rounding_and_granularity) {
  Dice dice(1, "coverage");
  std::map<int, int> rules, roundings, granularities;
  for (int i = 0; i < 2000; ++i) {
    const QuantSpec spec = parse_quant_spec(draw_spec(dice));
    ++rules[static_cast<int>(spec.rule)];
    ++roundings[static_cast<int>(spec.rounding)];
    ++granularities[static_cast<int>(spec.granularity)];
  }
  for (const ScaleRuleRow& row : kScaleRules) {
    const char* scale = row.scale == ScaleFormat::e8m0 ? "e8m0" : row.scale == ScaleFormat::e4m3 ? "e4m3" : "fp32";
    if (is_computable(std::string("e2m1:b32:") + scale + "/" + row.name)) {
      EXPECT_GT(rules[static_cast<int>(row.rule)], 0) << row.name;
    }
  }
  for (const RoundingRow& row : kRoundings)
    if (is_computable(std::string("e2m1:b32:e8m0/floor:") + row.name)) {
      EXPECT_GT(roundings[static_cast<int>(row.rounding)], 0) << row.name;
    }
  for (const char* name : {"b32", "row", "tensor"}) {
    const QuantSpec spec = parse_quant_spec(std::string("e2m1:") + name + ":fp32");
    EXPECT_GT(granularities[static_cast<int>(spec.granularity)], 0) << name;
  }
}

TEST(Generators, products_often_share_their_partition_of_k_and_sometimes_span_three_panels) {
  int shared = 0, three_panels = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const CaseParameters p = draw_case(Op::matmul, seed);
    const std::string &a = p.args.text("a_format"), &b = p.args.text("b_format");
    three_panels += p.args.integer("k") > 2 * kPanel;
    if (a == "f32" || a == "bf16" || b == "f32" || b == "bf16") continue;
    const QuantSpec sa = parse_quant_spec(a), sb = parse_quant_spec(b);
    shared += sa.granularity == sb.granularity && sa.block_size == sb.block_size;
  }
  EXPECT_GT(shared, 150);
  EXPECT_GT(three_panels, 50);
}

TEST(Elements, nonfinite_and_midpoint_rows_hold_what_they_say) {
  const std::vector<float> nonfinite = elements(find_distribution("nonfinite"), 1, "x", 2000);
  int inf = 0, nan = 0;
  for (const float x : nonfinite) inf += std::isinf(x), nan += std::isnan(x);
  EXPECT_GT(inf, 20);
  EXPECT_GT(nan, 20);
  for (const float x : elements(find_distribution("subnormals"), 1, "x", 500)) EXPECT_LT(std::fabs(x), 0x1p-122f);
  for (const Distribution& d : distributions()) {
    if (std::string(d.name) == "nonfinite" || std::string(d.name) == "mixed") continue;
    for (const float x : elements(d, 7, "finite", 2000)) ASSERT_TRUE(std::isfinite(x)) << d.name;
  }
  EXPECT_THROW((void)find_distribution("normal"), UsageError);
}

}  // namespace
}  // namespace fp4sim::fuzz
