// Every element format × granularity × scale rule, with roundings, axes, options and kinds of values in turn: quantize,
// dequantize, the estimators and the soft forward value against a second implementation; the amax input.
#include <bit>
#include <limits>

#include "reference/scalar/elementary.h"
#include "reference/scalar/estimator.h"
#include "reference/scalar/random_bits.h"
#include "tests/bits.h"
#include "tests/block_oracle.h"
#include "tests/pch.h"
#include "tests/quantize_cases.h"
#include "tests/quantize_nodes.h"

namespace fp4sim {
namespace {

constexpr const char* kElements[] = {"e2m1",  "e1m2",      "e3m0",     "e2m3",      "e3m2",     "e4m3",
                                     "e5m2",  "int8",      "int4",     "e1m1f",     "e2m1b-3f", "e5m0f",
                                     "e1m6f", "e5m2b100f", "e3m2b60f", "e2m1b-124f"};
constexpr const char* kGranularities[] = {"b16", "b32", "b64", "b128", "2d16", "2d32", "row", "col", "tensor"};
constexpr const char* kRules[] = {"e8m0/floor",       "e8m0/ceil",        "e8m0/even",       "e8m0/rceil",
                                  "e8m0/opt",         "fp32/amax",        "fp32/pow2",       "e4m3/te",
                                  "e4m3/exact",       "e4m3/one",         "ue5m3/te",        "ue3m4/exact",
                                  "ue8m0/one",        "ue1m1/te",         "e4m3/torchao",    "e4m3/modelopt",
                                  "e4m3/fouroversix", "e4m3/4over6(mse)", "e4m3/4over6(mae)"};
constexpr struct { int64_t rows, cols; } kShapes[] = {{17, 45}, {1, 40}, {33, 16}, {40, 1}, {5, 70}};

bool parses(const std::string& text) {
  try {
    return (void)parse_quant_spec(text), true;
  } catch (const std::exception&) {
    return false;
  }
}

/// One spec of the sweep with what goes with it.
struct Case {
  std::string spec;
  int64_t rows, cols;
  Axis axis;
  std::vector<float> x;
};

std::vector<std::string> sweep_texts() {
  std::vector<std::string> texts;
  for (const char* element : kElements) {
    for (const char* granularity : kGranularities)
      for (const char* rule : kRules) texts.push_back(std::string(element) + ":" + granularity + ":" + rule);
    for (int i = 0; i < 9; ++i) texts.push_back(std::string(element) + ":none");
  }
  for (const char* element : {"e2m1bautof", "e5m2bautof", "e3m0bautof", "e1m6bautof"})
    for (int i = 0; i < 18; ++i) texts.push_back(std::string(element) + ":none");
  return texts;
}

/// Roundings, axes, options, shapes and values rotate with different periods, so that neighbours differ in all.
std::vector<Case> sweep() {
  std::vector<Case> cases;
  size_t turn = 0;
  for (const std::string& text : sweep_texts()) {
    if (!parses(text)) continue;
    ++turn;
    Case c;
    c.spec = text + ":" + kRoundings[turn % std::size(kRoundings)].name;
    if (turn % 4 == 1) c.spec += "+sr34";
    if (turn % 5 < 2 && parses(c.spec + "+ieee")) c.spec += "+ieee";
    c.rows = kShapes[turn / 2 % 5].rows, c.cols = kShapes[turn / 2 % 5].cols;
    c.axis = turn / 3 % 2 == 0 ? Axis::last : Axis::first;
    c.x = test::draw_values(test::kAllValues[turn % 7], c.rows * c.cols, turn);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<uint32_t> random_of(const std::vector<float>& x) {
  std::vector<uint32_t> random;
  for (size_t i = 0; i < x.size(); ++i)
    random.push_back(scalar::random_bits(test::kQuantizeStep.seed, test::kQuantizeStream, test::kQuantizeStep.step, i));
  return random;
}

void expect_oracle(const test::Quantized& q, const test::QuantizedOracle& expected, const std::string& name) {
  ASSERT_EQ(q.bias(), expected.element.bias) << name;
  ASSERT_EQ(q.codes(), expected.codes) << name;
  const bool unscaled = is_unscaled(q.packed.type.spec);
  ASSERT_TRUE(test::same_bits(q.scales(), unscaled ? std::vector<float>{} : expected.scales)) << name;
  ASSERT_EQ(q.d(), expected.d) << name;
  ASSERT_TRUE(test::same_bits(q.decoded, expected.decoded)) << name;
}

TEST(EverySpec, quantizes_and_decodes_like_a_second_implementation) {
  size_t count = 0;
  for (const Case& c : sweep()) {
    const QuantSpec spec = parse_quant_spec(c.spec);
    const auto expected = test::quantize_oracle(c.x, c.rows, c.cols, spec, c.axis, random_of(c.x));
    expect_oracle(test::quantize_node({c.rows, c.cols}, c.x, c.spec, {c.axis}), expected, c.spec);
    if (HasFatalFailure()) return;
    ++count;
  }
  EXPECT_GT(count, 2000u);
}

TEST(EverySpec, computes_with_a_given_tensor_amax_like_a_second_implementation) {
  size_t count = 0;
  for (const Case& c : sweep()) {
    const QuantSpec spec = parse_quant_spec(c.spec);
    if (!needs_tensor_amax(spec)) continue;
    const float given[] = {0.0f, 1.0f, 3.7f, 0x1p-140f, std::numeric_limits<float>::max()};
    const float amax = given[count++ % 5];
    const auto expected = test::quantize_oracle(c.x, c.rows, c.cols, spec, c.axis, random_of(c.x), &amax);
    expect_oracle(test::quantize_node({c.rows, c.cols}, c.x, c.spec, {c.axis, 0, amax}), expected, c.spec);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(count, 500u);
}

// ---- estimators ----

std::vector<float> estimator_grad(const Case& c, const test::Quantized& q, const std::vector<float>& dy,
                                  const std::string& estimator) {
  const auto backend = scalar::make_backend();
  const Shape shape{c.rows, c.cols};
  return test::floats(test::run_node(*backend, Op::estimator_grad,
                                     {test::f32_value(shape, dy), test::f32_value(shape, c.x), q.packed},
                                     {{"estimator", estimator}})[0]);
}

/// ewgs from the text, the difference in binary128.
float ewgs_oracle(float dy, double y, double code_value, float delta) {
  const float difference = std::isfinite(y) && std::isfinite(code_value)
                               ? static_cast<float>(test::Binary128{y} - code_value)
                               : static_cast<float>(y - code_value);
  const float sign = dy > 0 ? 1.0f : dy < 0 ? -1.0f : 0.0f;
  const float inner = test::fl(1.0 + static_cast<double>(test::mul(delta, test::mul(sign, difference))));
  return test::mul(dy, inner);
}

TEST(EverySpec, has_the_gradient_of_the_number_given_to_encode) {
  constexpr const char* kEstimators[] = {"ste_clip", "dge(5,3)", "soft(7)", "dsq(0.2)", "quest", "ewgs(0.1)"};
  size_t turn = 0;
  for (const Case& c : sweep()) {
    const char* text = kEstimators[turn++ % 6];
    const Estimator estimator = parse_estimator(text);
    const auto oracle = test::quantize_oracle(c.x, c.rows, c.cols, parse_quant_spec(c.spec), c.axis, random_of(c.x));
    const std::vector<float> dy = test::draw_values(test::Values::zeros, c.rows * c.cols, turn);
    std::vector<float> expected;
    for (size_t i = 0; i < dy.size(); ++i) {
      const bool nonfinite = std::isnan(oracle.scale_of[i]);
      if (nonfinite)
        expected.push_back(dy[i] * 0.0f);
      else if (estimator.kind == EstimatorKind::ewgs)
        expected.push_back(ewgs_oracle(dy[i], oracle.y[i], oracle.code_values[i], 0.1f));
      else
        expected.push_back(dy[i] * scalar::estimator_multiplier(oracle.y[i], estimator, oracle.element));
    }
    const test::Quantized q = test::quantize_node({c.rows, c.cols}, c.x, c.spec, {c.axis});
    ASSERT_TRUE(test::same_bits(estimator_grad(c, q, dy, text), expected)) << c.spec << " " << text;
  }
}

/// f of §5 with the sign of y, from the text; exp64 is the definition's own.
double soft_oracle(double y, double beta, const test::GridTable& table) {
  const auto sigmoid = [](double z) {
    const double e = scalar::exp64(-std::fabs(z));
    return z >= 0 ? 1 / (1 + e) : e / (1 + e);
  };
  double f = 0;
  for (size_t i = 0; i + 1 < table.values.size(); ++i) {
    const double c = (table.values[i] + table.values[i + 1]) / 2, height = table.values[i + 1] - table.values[i];
    const double rising = sigmoid(beta * (std::fabs(y) - c)), mirrored = sigmoid(-(beta * (std::fabs(y) + c)));
    f += height * (rising - mirrored);
  }
  return std::signbit(y) ? -f : f;
}

TEST(EverySpec, has_the_soft_forward_value_of_the_number_given_to_encode) {
  const auto backend = scalar::make_backend();
  size_t turn = 0;
  for (const Case& c : sweep()) {
    if (turn++ % 3 != 0) continue;
    const QuantSpec spec = parse_quant_spec(c.spec);
    const auto oracle = test::quantize_oracle(c.x, c.rows, c.cols, spec, c.axis, random_of(c.x));
    const test::GridTable table = test::grid_table(oracle.element);
    std::vector<float> expected;
    for (size_t i = 0; i < c.x.size(); ++i) {
      float v = static_cast<float>(soft_oracle(oracle.y[i], 7, table));
      if (!is_unscaled(spec)) v = test::mul(v, oracle.scale_of[i]);
      if (has_tensor_scale(spec)) v = test::mul(v, oracle.d);
      expected.push_back(v);
    }
    const test::Quantized q = test::quantize_node({c.rows, c.cols}, c.x, c.spec, {c.axis});
    const auto got = test::run_node(*backend, Op::soft_forward, {test::f32_value({c.rows, c.cols}, c.x), q.packed},
                                    {{"estimator", "soft(7,forward=soft)"}});
    ASSERT_TRUE(test::same_bits(test::floats(got[0]), expected)) << c.spec;
  }
}

// ---- pieces ----

/// Specs with a tensor amax whose blocks lie inside of 32 rows. opt and 4over6 of granularity tensor are left out:
/// their error is a sum over the block, which a piece does not hold.
std::vector<std::string> specs_in_pieces() {
  std::vector<std::string> texts;
  for (const char* element : kElements)
    for (const char* granularity : {"b16", "b32", "2d16", "2d32", "row", "tensor"})
      for (const char* rule : kRules) texts.push_back(std::string(element) + ":" + granularity + ":" + rule);
  texts.push_back("e2m1bautof:none");
  texts.push_back("e4m3bautof:none");
  std::vector<std::string> kept;
  for (const std::string& text : texts) {
    if (!parses(text)) continue;
    const QuantSpec spec = parse_quant_spec(text);
    const bool compares = spec.rule == ScaleRule::opt || spec.rule >= ScaleRule::four_over_six_mse;
    const bool two_candidates = compares && spec.scale != ScaleFormat::fp32;
    if (!needs_tensor_amax(spec) || (spec.granularity == Granularity::tensor && two_candidates)) continue;
    kept.push_back(text + (kept.size() % 3 == 0 ? ":rne" : kept.size() % 3 == 1 ? ":sr32" : ":sr8+sr34"));
  }
  return kept;
}

TEST(GivenAmax, row_pieces_with_the_amax_of_the_whole_equal_the_whole) {
  constexpr int64_t kRows = 96, kCols = 37, kPiece = 32;
  const std::vector<std::string> texts = specs_in_pieces();
  EXPECT_GT(texts.size(), 300u);
  size_t turn = 0;
  for (const std::string& text : texts) {
    const std::vector<float> x = test::draw_values(test::kAllValues[turn % 3], kRows * kCols, turn);
    ++turn;
    float amax = 0;
    for (const float v : x) amax = std::max(amax, std::fabs(v));
    const test::Quantized whole = test::quantize_node({kRows, kCols}, x, text);
    std::vector<uint32_t> codes;
    std::vector<float> decoded;
    for (int64_t first = 0; first < kRows; first += kPiece) {
      const std::vector<float> piece(x.begin() + first * kCols, x.begin() + (first + kPiece) * kCols);
      const test::Quantized q = test::quantize_node({kPiece, kCols}, piece, text, {Axis::last, first, amax});
      ASSERT_EQ(q.d(), whole.d()) << text;
      ASSERT_EQ(q.bias(), whole.bias()) << text;
      const std::vector<uint32_t> piece_codes = q.codes();
      codes.insert(codes.end(), piece_codes.begin(), piece_codes.end());
      decoded.insert(decoded.end(), q.decoded.begin(), q.decoded.end());
    }
    ASSERT_EQ(codes, whole.codes()) << text;
    ASSERT_TRUE(test::same_bits(decoded, whole.decoded)) << text;
  }
}

}  // namespace
}  // namespace fp4sim
