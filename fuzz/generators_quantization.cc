// Generator rows of quantization, estimators, OCC and Hadamard (numerics.md §3–§6).
#include "fuzz/case_builder.h"
#include "fuzz/specs.h"

namespace fp4sim::fuzz {
namespace {

/// A matrix, sometimes with a leading batch; `axis` decides which dimension is long.
void draw_matrix(Dice& dice, Attrs& args) {
  args.set("axis", draw_axis(dice));
  args.set("k", dice.one_in(12) ? draw_long_size(dice) : draw_size(dice));
  args.set("m", args.integer("k") > 200 ? dice.between(1, 5) : draw_size(dice) % 70);
  args.set("batch", dice.one_in(5) ? dice.between(1, 3) : int64_t{0});
  if (!dice.one_in(24)) return;
  args.set("m", dice.between(150, 400));  // enough work for several threads
  args.set("k", dice.between(60, 200));
}

Shape matrix_shape(const Attrs& args) {
  const bool last = args.text("axis") == "last";
  const int64_t m = args.integer("m"), k = args.integer("k");
  Shape shape{last ? m : k, last ? k : m};
  if (args.integer("batch") > 0) shape.insert(shape.begin(), args.integer("batch"));
  return shape;
}

void draw_quantize(Dice& dice, Attrs& args) {
  draw_matrix(dice, args);
  args.set("spec", dice.one_in(40) ? "fp32" : draw_spec(dice));
  args.set("row_offset", dice.one_in(2) ? int64_t{0} : dice.below(100000));
  if (needs_tensor_amax(parse_quant_spec(args.text("spec"))) && dice.one_in(3)) args.set("amax", int64_t{1});
}

void build_quantize(const Attrs& args, CaseBuilder& builder) {
  builder.f32(matrix_shape(args));
  builder.attr("spec", args.text("spec"));
  builder.attr("axis", args.text("axis"));
  const QuantSpec spec = parse_quant_spec(args.text("spec"));
  const bool stochastic = is_stochastic(spec.rounding);
  // A simpler spec of a shrunk case may have no use for the amax.
  const bool amax = args.integer_or("amax", 0) != 0 && needs_tensor_amax(spec);
  if (stochastic || amax) builder.step();
  if (amax) builder.tensor_amax(0);
  if (!stochastic) return;
  builder.attr("stream", static_cast<int64_t>(builder.dice().bits()));
  builder.attr("row_offset", args.integer("row_offset"));
}

void draw_dequantize(Dice& dice, Attrs& args) {
  draw_matrix(dice, args);
  args.set("spec", dice.one_in(40) ? "fp32" : draw_spec(dice));
  args.set("codes", dice.below(3));
}

void build_dequantize(const Attrs& args, CaseBuilder& builder) {
  builder.packed(matrix_shape(args), args.text("spec"), parse_axis(args.text("axis")),
                 static_cast<Codes>(args.integer("codes")));
}

/// A spec with the grid of an element format of at most 8 bits: estimators walk it.
std::string draw_grid_spec(Dice& dice) {
  std::string spec = draw_spec(dice);
  while (parse_quant_spec(spec).element.bits > 8) spec = draw_spec(dice);
  return spec;
}

void draw_estimator_grad(Dice& dice, Attrs& args) {
  draw_matrix(dice, args);
  args.set("estimator", draw_estimator(dice));
  args.set("spec", draw_grid_spec(dice));
}

void build_estimator_grad(const Attrs& args, CaseBuilder& builder) {
  const Shape shape = matrix_shape(args);
  builder.f32(shape, "bell");
  builder.f32(shape);
  builder.packed_of(1, args.text("spec"), parse_axis(args.text("axis")));
  builder.attr("estimator", args.text("estimator"));
}

void draw_soft(Dice& dice, Attrs& args) {
  draw_matrix(dice, args);
  args.set("estimator", draw_soft_forward(dice));
  args.set("spec", draw_grid_spec(dice));
}

void build_soft(const Attrs& args, CaseBuilder& builder) {
  builder.f32(matrix_shape(args));
  builder.packed_of(0, args.text("spec"), parse_axis(args.text("axis")));
  builder.attr("estimator", args.text("estimator"));
}

void draw_occ_split(Dice& dice, Attrs& args) {
  draw_matrix(dice, args);
  args.set("spec", draw_occ_spec(dice, true));
}

void build_occ_split(const Attrs& args, CaseBuilder& builder) {
  builder.f32(matrix_shape(args));
  builder.attr("spec", args.text("spec"));
  builder.attr("axis", args.text("axis"));
}

void draw_hadamard(Dice& dice, Attrs& args) {
  constexpr int64_t kOrders[] = {16, 32, 64, 128};
  constexpr const char* kSigns[] = {"none", "fixed16", "philox"};
  args.set("axis", draw_axis(dice));
  args.set("order", dice.pick(kOrders));
  args.set("blocks", dice.between(0, 5));
  args.set("m", draw_size(dice) % 40);
  args.set("batch", dice.one_in(5) ? dice.between(1, 3) : int64_t{0});
  args.set("signs", dice.pick(kSigns));
  args.set("inverse", dice.below(2));
}

void build_hadamard(const Attrs& args, CaseBuilder& builder) {
  const int64_t n = args.integer("order");
  Attrs sizes = args;
  sizes.set("k", n * args.integer("blocks"));
  builder.f32(matrix_shape(sizes));
  builder.attr("n", n);
  builder.attr("axis", args.text("axis"));
  builder.attr("signs", args.text("signs"));
  builder.attr("inverse", args.integer("inverse"));
  if (args.text("signs") != "philox") return;
  builder.step();
  builder.attr("stream", static_cast<int64_t>(builder.dice().bits()));
}

}  // namespace

std::vector<OpGenerator> quantization_generators() {
  return {{Op::quantize, draw_quantize, build_quantize},
          {Op::dequantize, draw_dequantize, build_dequantize},
          {Op::estimator_grad, draw_estimator_grad, build_estimator_grad},
          {Op::soft_forward, draw_soft, build_soft},
          {Op::occ_split, draw_occ_split, build_occ_split},
          {Op::hadamard, draw_hadamard, build_hadamard}};
}

}  // namespace fp4sim::fuzz
