// The generators: deterministic, valid for every op, with a text form, and shrinking towards small cases.
#include "fuzz/generators.h"

#include <map>

#include "fuzz/case_builder.h"
#include "fuzz/elements.h"
#include "fuzz/packed_codes.h"
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

/// Counts of what draws hold, by name.
using Counts = std::map<std::string, int>;

Counts parts_of_specs(int draws) {
  Dice dice(1, "coverage");
  Counts counts;
  for (int i = 0; i < draws; ++i) {
    const QuantSpec s = parse_quant_spec(draw_spec(dice));
    const ElementFormat& f = s.element;
    const bool given = f.user && !f.bias_auto && format_name(f).find('b') != std::string::npos;
    ++counts["element " + (f.user ? f.bias_auto ? "user, bauto"
                                    : given     ? "user, given bias"
                                                : "user"
                                  : format_name(f))];
    ++counts["granularity " + std::to_string(static_cast<int>(s.granularity)) + "/" + std::to_string(s.block_size)];
    ++counts["scale " + std::to_string(static_cast<int>(s.scale))];
    ++counts["rule " + std::to_string(static_cast<int>(s.rule))];
    ++counts["rounding " + std::to_string(static_cast<int>(s.rounding))];
    if (s.sr34) ++counts["sr34"];
    if (s.ieee) ++counts["ieee"];
  }
  return counts;
}

TEST(Generators, draw_every_row_of_every_table) {
  Counts counts = parts_of_specs(4000);
  constexpr int kLeast = 4;  // of 4000 draws: no row is so rare that a fuzz run of minutes would miss it
  const auto drawn = [&](const std::string& what) { EXPECT_GE(counts[what], kLeast) << what; };
  for (const ElementFormatRow& row : kElementFormats)
    if (!is_identity_f32(row.format)) drawn(std::string("element ") + row.name);
  for (const char* user : {"user", "user, given bias", "user, bauto"}) drawn(std::string("element ") + user);
  for (const char* name : {"b16", "b32", "b64", "b128", "2d16", "2d32", "row", "col", "tensor"}) {
    const QuantSpec s = parse_quant_spec(std::string("e2m1:") + name + ":fp32");
    drawn("granularity " + std::to_string(static_cast<int>(s.granularity)) + "/" + std::to_string(s.block_size));
  }
  for (const ScaleFormat scale :
       {ScaleFormat::none, ScaleFormat::e8m0, ScaleFormat::e4m3, ScaleFormat::ue, ScaleFormat::fp32})
    drawn("scale " + std::to_string(static_cast<int>(scale)));
  for (const ScaleRuleRow& row : kScaleRules) drawn("rule " + std::to_string(static_cast<int>(row.rule)));
  for (const RoundingRow& row : kRoundings) drawn("rounding " + std::to_string(static_cast<int>(row.rounding)));
  drawn("sr34");
  drawn("ieee");
}

TEST(Generators, draw_every_estimator_hard_and_soft) {
  Dice dice(1, "estimators");
  Counts counts;
  for (int i = 0; i < 500; ++i) {
    const Estimator e = parse_estimator(draw_estimator(dice));
    ++counts[std::to_string(static_cast<int>(e.kind))];
    if (e.soft_forward) ++counts["soft forward"];
    EXPECT_TRUE(parse_estimator(draw_soft_forward(dice)).soft_forward);
  }
  for (const EstimatorRow& row : kEstimators)
    EXPECT_GT(counts[std::to_string(static_cast<int>(row.kind))], 0) << row.name;
  EXPECT_GT(counts["soft forward"], 0);
}

TEST(Generators, products_draw_every_case_of_the_rules_and_sometimes_span_three_panels) {
  Counts counts;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const CaseParameters p = draw_case(Op::matmul, seed);
    const std::string formats[] = {p.args.text("a_format"), p.args.text("b_format")};
    counts["three panels"] += p.args.integer("k") > 2 * kPanel;
    QuantSpec specs[2];
    int packed = 0;
    for (const std::string& format : formats)
      if (format != "f32" && format != "bf16") specs[packed++] = parse_quant_spec(format);
    counts["one operand"] += packed == 1;
    for (int i = 0; i < packed; ++i) {
      counts["col"] += specs[i].granularity == Granularity::col;
      counts["integer"] += specs[i].element.encoding == Encoding::twos_complement;
      counts["user format"] += specs[i].element.user;
      counts["ue scale"] += specs[i].scale == ScaleFormat::ue;
    }
    if (packed != 2) continue;
    const auto pair = [&](Granularity a, Granularity b) {
      return (specs[0].granularity == a && specs[1].granularity == b) ||
             (specs[0].granularity == b && specs[1].granularity == a);
    };
    const bool same_block = contraction_block(specs[0]) == contraction_block(specs[1]);
    counts["blocks"] += pair(Granularity::block, Granularity::block) && same_block;
    counts["tiles"] += pair(Granularity::tile2d, Granularity::tile2d) && same_block;
    counts["tile and block"] += pair(Granularity::tile2d, Granularity::block) && same_block;
    counts["other partition"] += pair(Granularity::tile2d, Granularity::block) && !same_block;
    counts["row and row"] += pair(Granularity::row, Granularity::row);
    counts["row and tensor"] += pair(Granularity::row, Granularity::tensor);
    counts["row and block"] += pair(Granularity::row, Granularity::block);
    counts["unscaled and block"] += pair(Granularity::none, Granularity::block);
    counts["one sr34"] += specs[0].sr34 != specs[1].sr34;
    counts["two sr34"] += specs[0].sr34 && specs[1].sr34;
    counts["two tensor scales"] += has_tensor_scale(specs[0]) && has_tensor_scale(specs[1]);
  }
  for (const auto& [what, count] : counts) EXPECT_GT(count, 3) << what;
  EXPECT_GT(counts["blocks"] + counts["row and row"] + counts["row and tensor"], 150);
  EXPECT_GT(counts["three panels"], 100);
}

TEST(Generators, give_a_tensor_amax_and_decode_every_code) {
  const auto maker = scalar::make_backend();
  int given = 0, zero = 0, with_bias = 0;
  std::map<std::string, int> lowest;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Case q = build_case(draw_case(Op::quantize, seed), *maker);
    if (q.inputs.size() == 3) ++given, zero += *q.inputs[2].data<float>() == 0;
    const Case d = build_case(draw_case(Op::dequantize, seed), *maker);
    const HostValue& value = d.inputs[0];
    with_bias += value.type.spec.element.bias_auto;
    if (value.type.spec.element.encoding != Encoding::twos_complement) continue;
    const MatrixView m = matrix_view(value.type.shape);
    const uint32_t code = 1u << (value.type.spec.element.bits - 1);
    for (int64_t i = 0; i < element_count(value.type.shape); ++i)
      lowest[format_name(value.type.spec.element)] += get_code(value, i / m.cols, i % m.cols) == code;
  }
  EXPECT_GT(given, 10);
  EXPECT_GT(zero, 0);
  EXPECT_GT(with_bias, 5);
  EXPECT_GT(lowest["int8"], 0) << "-128";
  EXPECT_GT(lowest["int4"], 0) << "-8";
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
