// The groups of gpu_sweep.h: every built-in element format and scale format, and the ops that hold the elementary
// functions.
#include "tests/gpu_sweep.h"

#include <fmt/format.h>

#include "reference/contract/element_format.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::test {
namespace {

ValueType f32(Shape shape) { return {DType::f32, std::move(shape), {}, Axis::last}; }

/// Every row of §2, nearest even, with its default policy; the FP8 formats with infinities or NaN under `ieee` too.
Sweep element_formats() {
  Sweep sweep({kPiece});
  for (const ElementFormatRow& row : kElementFormats) {
    std::vector<std::string> specs{std::string(row.name) + ":none:rne"};
    if (row.format.bits == 8 && row.format.specials != Specials::none) specs.push_back(specs[0] + "+ieee");
    for (const std::string& spec : specs) sweep.check(spec, sweep.quantize(spec, {sweep.x}));
  }
  return sweep;
}

constexpr float kTensorAmax = 3.7f;

/// Quantizes x by a spec and compares; a tensor amax is given where one is needed, the same for all pieces.
class ScaleChecks {
 public:
  explicit ScaleChecks(Sweep& sweep)
      : sweep_(sweep), step_(sweep.constant(step_type(), StepInfo{})), amax_(sweep.constant(f32({}), kTensorAmax)) {}

  void add(const std::string& what, const std::string& spec, const char* axis) {
    std::vector<ValueId> inputs{sweep_.x};
    if (needs_tensor_amax(parse_quant_spec(spec))) inputs.insert(inputs.end(), {step_, amax_});
    sweep_.check(spec + what, sweep_.quantize(spec, inputs, axis));
  }

 private:
  Sweep& sweep_;
  ValueId step_, amax_;
};

/// Every rule and scale format on blocks of one element, (1, n) along the first axis: the input is the amax, and the
/// scale follows from it.
Sweep scale_formats() {
  Sweep sweep({1, kPiece});
  ScaleChecks checks(sweep);
  for (const ScaleRuleRow& row : kScaleRules) {
    std::vector<const char*> scales{row.scale == ScaleFormat::e8m0   ? "e8m0"
                                    : row.scale == ScaleFormat::e4m3 ? "e4m3"
                                                                     : "fp32"};
    if (row.rule == ScaleRule::one || row.rule == ScaleRule::te) scales.push_back("ue5m3");
    for (const char* scale : scales) checks.add("", fmt::format("e2m1:b16:{}/{}:rne", scale, row.name), "first");
  }
  return sweep;
}

/// Whole blocks along the last axis, 16 copies of an input: the layout of a training step and its own kernels.
Sweep whole_blocks() {
  constexpr int64_t kCopies = 16, kRow = 4096;
  Sweep sweep({kCopies * kPiece / kRow, kRow}, kCopies);
  ScaleChecks checks(sweep);
  for (const char* spec : {"mxfp4", "nvfp4"}) checks.add(" of 16 copies", spec, "last");
  return sweep;
}

/// exp64 in the activations, exp in the gradient and log in the loss of rows of 0 and four inputs (those of one row lie
/// far apart).
Sweep activations() {
  constexpr int64_t kInRow = 4, kRows = kPiece / kInRow;
  Sweep sweep({kPiece});
  const ValueId x = sweep.x, ones = sweep.constant(f32({kPiece}), 1.0f);
  sweep.check("silu", sweep.node(Op::silu, {x}));
  sweep.check("silu_grad, dy = 1", sweep.node(Op::silu_grad, {ones, x}));
  sweep.check("gelu", sweep.node(Op::gelu, {x}));
  sweep.check("gelu_grad, dy = 1", sweep.node(Op::gelu_grad, {ones, x}));
  sweep.check("cast to bf16", sweep.node(Op::cast, {x}, {{"to", "bf16"}}));
  const ValueId columns = sweep.node(Op::concat, {sweep.constant(f32({kRows}), 0.0f), x});
  const ValueId rows = sweep.node(Op::permute, {columns},
                                  {{"view", fmt::format("{},{}", kInRow + 1, kRows)},
                                   {"perm", "1,0"},
                                   {"shape", fmt::format("{},{}", kRows, kInRow + 1)}});
  const ValueId first = sweep.constant({DType::i32, {kRows}, {}, Axis::last}, int32_t{0});
  const ValueId step = sweep.constant(step_type(), StepInfo{});
  sweep.check("cross_entropy", sweep.node(Op::cross_entropy, {rows, first}));
  sweep.check("cross_entropy_grad",
              sweep.node(Op::cross_entropy_grad, {rows, first, step}, {{"total_rows", int64_t{1}}}));
  return sweep;
}

/// exp64 of log64 in dge, tanh64 in dsq, exp64 in soft.
Sweep estimators() {
  Sweep sweep({kPiece});
  const ValueId x = sweep.x, ones = sweep.constant(f32({kPiece}), 1.0f);
  for (const char* format : {"e2m1", "e4m3"}) {
    const ValueId q = sweep.quantize(std::string(format) + ":none:rne", {x});
    for (const char* estimator : {"dge(k=5,clip=3)", "dsq(alpha=0.2)", "ewgs(delta=0.1)"})
      sweep.check(fmt::format("estimator_grad {} {}, dy = 1", format, estimator),
                  sweep.node(Op::estimator_grad, {ones, x, q}, {{"estimator", estimator}}));
  }
  const ValueId q = sweep.quantize("e2m1:none:rne", {x});
  sweep.check("estimator_grad e2m1 soft(beta=20), dy = 1",
              sweep.node(Op::estimator_grad, {ones, x, q}, {{"estimator", "soft(beta=20)"}}));
  sweep.check("soft_forward e2m1 soft(beta=20)",
              sweep.node(Op::soft_forward, {x, q}, {{"estimator", "soft(beta=20,forward=soft)"}}));
  return sweep;
}

}  // namespace

Sweep::Sweep(Shape shape, int64_t copies_of_input)
    : copies(copies_of_input), x(add_value(graph, f32(std::move(shape)), ValueKind::input, "x")) {}

ValueId Sweep::node(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return add_node(graph, op, std::move(inputs), std::move(attrs)).front();
}

ValueId Sweep::quantize(const std::string& spec, std::vector<ValueId> inputs, const char* axis) {
  return node(Op::quantize, std::move(inputs),
              {{"spec", spec}, {"axis", std::string(axis)}, {"stream", int64_t{0}}, {"row_offset", int64_t{0}}});
}

void Sweep::check(std::string name, ValueId value) {
  checks.push_back({std::move(name), value});
  graph.results.push_back(value);
}

const std::vector<SweepGroup>& sweep_groups() {
  static const std::vector<SweepGroup> groups = {{"element-formats", element_formats},
                                                 {"scale-formats", scale_formats},
                                                 {"whole-blocks", whole_blocks},
                                                 {"activations", activations},
                                                 {"estimators", estimators}};
  return groups;
}

}  // namespace fp4sim::test
