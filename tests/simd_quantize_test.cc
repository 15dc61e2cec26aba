// quantize, dequantize and estimator_grad of every simd level against scalar, over the whole table of specs.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "reference/contract/estimator.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/quantize_cases.h"
#include "tests/simd_levels.h"

namespace fp4sim {
namespace {

using test::Draw;
using test::HostValue;
using test::Values;

constexpr const char* kElements[] = {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2"};
constexpr const char* kGranularities[] = {"b16", "b32", "b64", "b128", "row", "tensor"};
constexpr const char* kScales[] = {"e8m0/floor", "e8m0/ceil", "e8m0/even", "e8m0/rceil",
                                   "e4m3/te",    "e4m3/one",  "fp32/amax", "fp32/pow2"};
constexpr const char* kRoundingNames[] = {"rne", "rna", "rnz", "rnu", "rtz", "rtp", "rtn", "sr32"};
constexpr const char* kUnscaled[] = {"e2m1:none", "e2m3:none", "e3m2:none", "e4m3:none",      "e5m2:none",
                                     "bf16:none", "fp16:none", "fp32:none", "e4m3:none+ieee", "e5m2:none+ieee"};
constexpr const char* kEstimatorTexts[] = {"ste",       "ste_clip",      "dge(5,3)",  "dge(k=3,clip=10,eps=0.05)",
                                           "soft(20)",  "soft(1.5)",     "quest",     "dsq(0.2)",
                                           "dsq(0.01)", "dsq(alpha=.9)", "ewgs(0.1)", "ewgs(3)"};

// Rows of the wide tables: every element, granularity and scale rule meets every other, with a rounding and options
// drawn.
constexpr const char* kWideElements[] = {"e2m1",  "e1m2",  "e3m0",      "e2m3",       "e3m2",    "e4m3",
                                         "e5m2",  "int8",  "int4",      "e3m1f",      "e1m1b0f", "e2m4f",
                                         "e5m0f", "e1m6f", "e2m1b149f", "e3m2b-120f", "e4m1b90f"};
constexpr const char* kWideGranularities[] = {"b16", "b32", "b128", "2d16", "2d32", "row", "col", "tensor"};
constexpr const char* kWideScales[] = {"e8m0/floor",  "e8m0/ceil",  "e8m0/even",  "e8m0/rceil", "e8m0/opt",
                                       "e4m3/te",     "e4m3/one",   "e4m3/exact", "fp32/amax",  "fp32/pow2",
                                       "ue5m3/te",    "ue3m4/one",  "ue8m0/te",   "ue1m3/one",  "ue7m1/one",
                                       "ue4m2/exact", "ue8m0/exact"};
constexpr const char* kE2m1Profiles[] = {"torchao", "modelopt", "fouroversix", "4over6(mse)", "4over6(mae)"};
constexpr const char* kWideUnscaled[] = {"e1m2",       "e3m0",       "int8",       "int4",     "e2m1bautof",
                                         "e3m0bautof", "e5m2bautof", "e1m6bautof", "e4m3b-8f", "e2m0f",
                                         "e3m3b140f",  "bf16",       "fp16"};
constexpr const char* kAllRoundings[] = {"rne", "rna", "rnz", "rnu", "rtz", "rtp", "rtn", "sr32", "sr8"};

template <size_t N>
const char* pick(Draw& draw, const char* const (&table)[N]) {
  return table[draw.below(static_cast<int64_t>(N))];
}

/// Every spec of the table; the policy is appended after the rounding.
std::vector<std::string> all_specs() {
  std::vector<std::string> specs;
  for (const std::string rounding : kRoundingNames) {
    for (const std::string element : kElements)
      for (const std::string granularity : kGranularities)
        for (const std::string scale : kScales) {
          specs.push_back(element + ":" + granularity + ":" + scale + ":" + rounding);
          const bool has_specials = element == "e4m3" || element == "e5m2";
          if (has_specials && scale.find("e4m3") == std::string::npos) specs.push_back(specs.back() + "+ieee");
        }
    for (std::string spec : kUnscaled) {
      const size_t option = std::min(spec.find('+'), spec.size());
      specs.push_back(spec.insert(option, ":" + rounding));
    }
  }
  return specs;
}

/// Specs beyond the table above.
std::vector<std::string> wide_specs() {
  std::vector<std::string> specs;
  Draw draw(17);
  const auto add = [&](std::string spec) {
    spec += std::string(":") + pick(draw, kAllRoundings);
    if (draw.below(4) == 0) spec += "+sr34";
    specs.push_back(spec);
  };
  for (const std::string granularity : kWideGranularities) {
    for (const std::string element : kWideElements)
      for (const std::string scale : kWideScales) add(element + ":" + granularity + ":" + scale);
    for (const std::string profile : kE2m1Profiles)
      for (int i = 0; i < 9; ++i) add("e2m1:" + granularity + ":e4m3/" + profile);
  }
  for (const std::string element : kWideUnscaled)
    for (int i = 0; i < 9; ++i) add(element + ":none");
  for (const char* spec :
       {"e4m3:none:sr8+ieee", "e5m2:none:sr8+sr34+ieee", "e4m1b149f:b16:e4m3/te:rne", "e1m2b144f:row:e4m3/te:rtn",
        "fp32:none:rne+sr34", "fp32:none:sr32+sr34", "fp32:none:sr8+sr34", "fp32:none:rtp+sr34",
        "e5m2:b32:e8m0/opt:rne+ieee", "e4m3:2d16:e8m0/opt:rtp+ieee", "e4m3:col:fp32:rne+ieee"})
    specs.push_back(spec);
  return specs;
}

struct Case {
  std::string spec, estimator;
  Shape shape;
  Axis axis;
  Values values;
  uint64_t seed;
};

Shape draw_shape(Draw& draw) {
  constexpr int64_t kCols[] = {1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 260, 300};
  const int64_t cols = kCols[draw.below(21)];
  const int64_t rows = 1 + draw.below(std::max<int64_t>(1, 260 / cols));
  switch (draw.below(6)) {
    case 0: return {cols};
    case 1: return {2, rows, cols};
    case 2: return {2, 2, 1 + draw.below(4), cols};
    default: return {rows, cols};
  }
}

Case draw_case(const std::string& spec, uint64_t seed) {
  Draw draw(seed);
  Case c;
  c.spec = spec;
  c.estimator = pick(draw, kEstimatorTexts);
  // Hundreds of midpoints an element make scalar slow: soft meets the 8-bit formats seldom.
  const ElementFormat& element = parse_quant_spec(spec).element;
  if (element.bits >= 7 && draw.below(8) != 0 && c.estimator.starts_with("soft")) c.estimator = "dge(5,3)";
  if (element.bits > 8) c.estimator = "ste";
  c.shape = draw_shape(draw);
  c.axis = c.shape.size() > 1 && draw.below(2) == 0 ? Axis::first : Axis::last;
  c.values = test::kAllValues[draw.below(8)];
  c.seed = draw.bits();
  return c;
}

std::string describe(const Case& c) {
  return c.spec + " axis=" + to_string(c.axis) + " shape=" + to_string(c.shape) +
         " values=" + std::to_string(static_cast<int>(c.values)) + " estimator=" + c.estimator +
         " seed=" + std::to_string(c.seed);
}

struct Results {
  HostValue q, x, dx, soft;
};

Attrs quantize_attrs(const Case& c, int64_t row_offset = 0) {
  return {{"spec", c.spec},
          {"axis", std::string(to_string(c.axis))},
          {"stream", int64_t{0x12345678}},
          {"row_offset", row_offset}};
}

HostValue step_of(uint64_t seed) {
  StepInfo step;
  step.seed = seed;
  step.step = static_cast<uint32_t>(seed >> 40);
  return test::step_value(step);
}

HostValue quantized(Backend& backend, const Case& c, const HostValue& x, int64_t row_offset = 0) {
  std::vector<HostValue> inputs{x};
  if (is_stochastic(parse_quant_spec(c.spec).rounding)) inputs.push_back(step_of(c.seed));
  return test::run_node(backend, Op::quantize, inputs, quantize_attrs(c, row_offset))[0];
}

HostValue input_of(const Case& c) {
  return test::f32_value(c.shape, test::draw_values(c.values, element_count(c.shape), c.seed));
}

Results run_case(Backend& backend, const Case& c) {
  const HostValue x = input_of(c);
  const HostValue dy = test::f32_value(c.shape, test::draw_values(Values::bell, element_count(c.shape), c.seed + 1));
  Results r;
  r.q = quantized(backend, c, x);
  r.x = test::run_node(backend, Op::dequantize, {r.q})[0];
  r.dx = test::run_node(backend, Op::estimator_grad, {dy, x, r.q}, {{"estimator", c.estimator}})[0];
  const bool few_midpoints = parse_quant_spec(c.spec).element.bits <= 6 || c.estimator.starts_with("soft");
  r.soft =
      few_midpoints
          ? test::run_node(backend, Op::soft_forward, {x, r.q},
                           {{"estimator", std::string(c.seed % 2 == 0 ? "soft(20,forward=soft)" : "soft(2,soft)")}})[0]
          : r.x;
  return r;
}

std::string difference(const Results& a, const Results& b) {
  for (const auto& [name, u, v] :
       {std::tuple{"quantize", &a.q, &b.q}, std::tuple{"dequantize", &a.x, &b.x},
        std::tuple{"estimator_grad", &a.dx, &b.dx}, std::tuple{"soft_forward", &a.soft, &b.soft}}) {
    const std::string d = test::difference(*u, *v);
    if (!d.empty()) return std::string(name) + ": " + d;
  }
  return {};
}

/// One backend for each set of kernels (avx512vnni quantizes with those of avx512). One thread: the pieces of work are
/// the same with more, which have a test of their own.
std::vector<std::unique_ptr<Backend>> all_levels() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const simd::Level level : simd::available_levels())
    if (level != simd::Level::avx512vnni) backends.push_back(simd::make_backend(level, 1));
  return backends;
}

void compare_with_scalar(const std::vector<std::string>& specs) {
  const auto scalar = scalar::make_backend();
  const auto levels = all_levels();
  int64_t cases = 0, mismatches = 0;
  for (const std::string& spec : specs) {
    const Case c = draw_case(spec, static_cast<uint64_t>(cases) * 7919);
    const Results expected = run_case(*scalar, c);
    for (const auto& level : levels) {
      ++cases;
      const std::string d = difference(expected, run_case(*level, c));
      if (d.empty()) continue;
      if (++mismatches <= 20) ADD_FAILURE() << level->name() << " " << describe(c) << ": " << d;
    }
  }
  testing::Test::RecordProperty("cases", std::to_string(cases));
  testing::Test::RecordProperty("mismatches", std::to_string(mismatches));
  std::printf("%lld cases, %lld mismatches\n", static_cast<long long>(cases), static_cast<long long>(mismatches));
  EXPECT_EQ(mismatches, 0);
}

TEST(SimdQuantize, gives_the_bits_of_scalar_for_every_spec_on_every_level) { compare_with_scalar(all_specs()); }

TEST(SimdQuantize, gives_the_bits_of_scalar_for_the_wide_formats_granularities_and_scales) {
  compare_with_scalar(wide_specs());
}

RC_GTEST_PROP(SimdQuantize, gives_the_bits_of_scalar_on_drawn_cases, ()) {
  static const auto scalar = scalar::make_backend();
  static const auto levels = all_levels();
  static const std::vector<std::string> specs = [] {
    std::vector<std::string> all = all_specs();
    for (std::string& spec : wide_specs()) all.push_back(std::move(spec));
    return all;
  }();
  Case c = draw_case(*rc::gen::elementOf(specs), *rc::gen::arbitrary<uint64_t>());
  c.values = *rc::gen::elementOf(std::vector<Values>(std::begin(test::kAllValues), std::end(test::kAllValues)));
  const Results expected = run_case(*scalar, c);
  for (const auto& level : levels) {
    const std::string d = difference(expected, run_case(*level, c));
    if (!d.empty()) RC_FAIL(level->name() + " " + describe(c) + ": " + d);
  }
}

/// e2m1 under rne has kernels of its own, which take hundreds of elements at a time and leave the rest to others.
TEST(SimdQuantize, gives_the_bits_of_scalar_for_long_runs_of_e2m1) {
  const auto scalar = scalar::make_backend();
  const auto levels = all_levels();
  for (const char* scale : {"e8m0/floor", "e8m0/ceil", "e8m0/even", "e8m0/rceil", "e4m3/te"})
    for (const char* granularity : {"b16", "b32", "b64", "b128", "row", "tensor"})
      for (const Values values : test::kAllValues)
        for (const Axis axis : {Axis::last, Axis::first}) {
          const std::string spec = std::string("e2m1:") + granularity + ":" + scale + ":rne";
          const Case c{spec, "ste", {axis == Axis::last ? 3 : 40, 1200}, axis, values, 21};
          const HostValue x = input_of(c), want = quantized(*scalar, c, x);
          for (const auto& level : levels)
            EXPECT_EQ(test::difference(want, quantized(*level, c, x)), "") << level->name() << " " << describe(c);
        }
}

TEST(SimdQuantize, does_not_depend_on_the_number_of_threads) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32:sr32", "e4m3:tensor:fp32", "e3m2:b64:e4m3/one", "bf16",
                           "int8:2d32:e8m0/opt:rne", "e2m1:tensor:e4m3/4over6(mse):sr8+sr34",
                           "e2m1:2d16:e4m3/4over6(mae):sr32", "e3m1f:col:ue5m3/exact:rne", "e2m1:row:e8m0/opt:rne",
                           "e2m1bautof:none:sr8", "int4:b16:e4m3/te:rne", "e2m1:b16:e4m3/torchao:rne+sr34"})
    for (const Axis axis : {Axis::last, Axis::first}) {
      const bool wide = parse_quant_spec(spec).element.bits > 8;
      const Case c{spec, wide ? "ste" : "dge(5,3)", {3, 70, 515}, axis, Values::with_specials, 99};
      const Results one = run_case(*simd::make_backend(1), c);
      for (const int threads : {2, 7}) {
        const std::string d = difference(one, run_case(*simd::make_backend(threads), c));
        EXPECT_EQ(d, "") << describe(c) << " threads=" << threads;
      }
    }
}

TEST(SimdQuantize, rounds_stochastically_the_same_in_pieces_as_in_one) {
  for (const simd::Level level : simd::available_levels()) {
    const auto backend = simd::make_backend(level, 2);
    for (const int64_t cols : {33, 64, 130})
      for (const char* spec : {"e2m1:b32:e8m0:sr32", "e2m1:row:fp32:sr32", "e4m3:none:sr32", "int8:b16:e8m0:sr8",
                               "e2m1:row:e8m0/opt:sr8+sr34", "e3m1f:none:sr32"}) {
        const Case whole{spec, "ste", {21, cols}, Axis::last, Values::bell, 5};
        const HostValue x = input_of(whole);
        const HostValue q = quantized(*backend, whole, x);
        const size_t row_bytes = q.parts[0].size() / 21;
        const std::vector<float> values = test::floats(x);
        for (int64_t row = 0; row < 21; row += 7) {
          Case piece = whole;
          piece.shape = {7, cols};
          const std::vector<float> part(values.begin() + row * cols, values.begin() + (row + 7) * cols);
          const HostValue p = quantized(*backend, piece, test::f32_value(piece.shape, part), row);
          const auto begin = q.parts[0].begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * row_bytes);
          EXPECT_TRUE(std::equal(p.parts[0].begin(), p.parts[0].end(), begin)) << spec << " " << backend->name();
        }
      }
  }
}

TEST(SimdQuantize, takes_the_tensor_amax_from_its_input) {
  const auto scalar = scalar::make_backend();
  for (const auto& backend : all_levels())
    for (const char* spec : {"nvfp4", "e2m1:b16:e4m3/exact:sr32", "e2m1:2d16:e4m3/4over6(mse):rne", "e4m3:tensor:fp32",
                             "int8:tensor:e8m0/opt:rne", "e2m1bautof:none:rne", "e3m0bautof:none:sr8",
                             "e2m1:tensor:e4m3/te:rne", "e2m1:b16:ue5m3/te:rtz", "e2m1:tensor:e4m3/exact:rne"})
      for (const float amax : {0.0f, 0.75f, 12.5f, 0x1p-140f, 0x1.8p127f})
        for (const Values values : {Values::bell, Values::with_specials, Values::zeros}) {
          const Case c{spec, "ste", {5, 100}, Axis::last, values, 8};
          const std::vector<HostValue> inputs{input_of(c), step_of(c.seed), test::f32_value({}, {amax})};
          const HostValue want = test::run_node(*scalar, Op::quantize, inputs, quantize_attrs(c))[0];
          const HostValue got = test::run_node(*backend, Op::quantize, inputs, quantize_attrs(c))[0];
          EXPECT_EQ(test::difference(want, got), "") << backend->name() << " " << describe(c) << " A=" << amax;
        }
}

TEST(SimdQuantize, ignores_the_callers_rounding_mode_and_flushing) {
  for (const auto& backend : all_levels())
    for (const char* spec :
         {"mxfp4", "nvfp4", "e4m3:row:fp32:sr32", "e5m2:b32:e8m0/rceil:rtp", "fp16", "bf16:none:rtz"})
      for (const Values values : {Values::tiny, Values::bell}) {
        const Case c{spec, "dge(5,3)", {40, 96}, Axis::last, values, 3};
        const HostValue x = input_of(c), plain = quantized(*backend, c, x);
        HostValue hostile;
        {
          const test::HostileEnvironment environment;
          hostile = quantized(*backend, c, x);
        }
        EXPECT_EQ(test::difference(plain, hostile), "") << backend->name() << " " << describe(c);
      }
}

TEST(SimdQuantize, runs_the_level_that_was_asked_for) {
  for (const simd::Level level : simd::available_levels()) {
    const auto backend = simd::make_backend(level, 1);
    run_case(*backend, {"mxfp4", "ste", {4, 64}, Axis::last, Values::bell, 1});
    EXPECT_EQ(simd::last_level_run(), level);
  }
}

TEST(SimdQuantize, accepts_empty_tensors) {
  for (const auto& backend : all_levels())
    for (const char* spec :
         {"mxfp4", "nvfp4", "e2m1:row:fp32", "e4m3:tensor:fp32", "bf16", "fp32", "int8:col:e8m0/opt",
          "e2m1:tensor:e4m3/4over6(mse)", "e2m1:row:e4m3/torchao", "e2m1bautof:none", "e3m0:2d16:ue5m3/exact"})
      for (const Shape& shape : {Shape{0}, Shape{0, 32}, Shape{4, 0}, Shape{2, 0, 5}}) {
        const bool wide = parse_quant_spec(spec).element.bits > 8;
        const Case c{spec, wide ? "ste" : "dge(5,3)", shape, Axis::last, Values::bell, 1};
        const Results r = run_case(*backend, c);
        EXPECT_EQ(difference(run_case(*scalar::make_backend(), c), r), "") << backend->name() << " " << describe(c);
      }
}

}  // namespace
}  // namespace fp4sim
