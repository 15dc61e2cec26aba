// Generator rows of the ops that work on rows (numerics.md §9).
#include <algorithm>

#include "fuzz/case_builder.h"

namespace fp4sim::fuzz {
namespace {

/// (t, columns): either many rows (column sums beyond one panel) or long rows (beyond one chunk), never both.
void draw_rows(Dice& dice, Attrs& args) {
  constexpr double kEps[] = {1e-5, 1e-6, 0.0};
  const bool long_rows = dice.one_in(12);
  args.set("columns", long_rows ? dice.between(4000, 8400) : draw_size(dice));
  args.set("t", args.integer("columns") > 100 ? dice.between(1, 3)
                : dice.one_in(6)              ? draw_long_size(dice)
                                              : dice.between(1, 20));
  args.set("eps", dice.pick(kEps));
}

void build_norm(const Attrs& args, CaseBuilder& builder, int parameters) {
  builder.f32({args.integer("t"), args.integer("columns")});
  for (int i = 0; i < parameters; ++i) builder.f32({args.integer("columns")});
  builder.attr("eps", args.number("eps"));
}
void build_rmsnorm(const Attrs& args, CaseBuilder& builder) { build_norm(args, builder, 1); }
void build_layernorm(const Attrs& args, CaseBuilder& builder) { build_norm(args, builder, 2); }
void build_norm_grad(const Attrs& args, CaseBuilder& builder) {
  builder.f32({args.integer("t"), args.integer("columns")}, "bell");
  build_norm(args, builder, 1);
}

void draw_rope(Dice& dice, Attrs& args) {
  args.set("batch", dice.between(0, 4));
  args.set("s", dice.between(1, 20));
  args.set("half", dice.one_in(4) ? dice.between(1, 70) : dice.between(1, 20));
  args.set("extra", dice.one_in(2) ? int64_t{0} : dice.between(1, 9));
  args.set("style", dice.one_in(2) ? "interleaved" : "half");
  args.set("inverse", dice.below(2));
}
void build_rope(const Attrs& args, CaseBuilder& builder) {
  const int64_t s = args.integer("s"), half = args.integer("half");
  Shape shape{s, 2 * half};
  if (args.integer("batch") > 0) shape.insert(shape.begin(), args.integer("batch"));
  builder.f32(shape);
  for (int i = 0; i < 2; ++i) builder.f32({s + args.integer("extra"), half}, "bell");
  builder.attr("style", args.text("style"));
  builder.attr("inverse", args.integer("inverse"));
}

void draw_softmax(Dice& dice, Attrs& args) {
  constexpr double kScales[] = {1.0, 0.125, 0.35355339059327379};
  args.set("batch", dice.between(0, 4));
  args.set("s", dice.one_in(4) ? dice.between(60, 140) : dice.between(1, 40));
  args.set("scale", dice.pick(kScales));
}
Shape square(const Attrs& args) {
  const int64_t s = args.integer("s");
  return args.integer("batch") > 0 ? Shape{args.integer("batch"), s, s} : Shape{s, s};
}
void build_causal_softmax(const Attrs& args, CaseBuilder& builder) {
  builder.f32(square(args));
  builder.attr("scale", args.number("scale"));
}
void build_causal_softmax_grad(const Attrs& args, CaseBuilder& builder) {
  builder.f32(square(args));
  builder.non_negative(square(args));
  builder.attr("scale", args.number("scale"));
}

void draw_cross_entropy(Dice& dice, Attrs& args) {
  args.set("classes", dice.one_in(8) ? dice.between(4000, 8400) : std::max<int64_t>(1, draw_size(dice)));
  args.set("t", args.integer("classes") > 200 ? dice.between(1, 3) : dice.between(0, 20));
}
void build_cross_entropy(const Attrs& args, CaseBuilder& builder) {
  builder.f32({args.integer("t"), args.integer("classes")});
  builder.indices(args.integer("t"), args.integer("classes"));
}
void build_cross_entropy_grad(const Attrs& args, CaseBuilder& builder) {
  build_cross_entropy(args, builder);
  builder.step();
  builder.attr("total_rows", args.integer("t") + 1);
}

}  // namespace

std::vector<OpGenerator> row_generators() {
  return {{Op::rmsnorm, draw_rows, build_rmsnorm},
          {Op::rmsnorm_grad, draw_rows, build_norm_grad},
          {Op::layernorm, draw_rows, build_layernorm},
          {Op::layernorm_grad, draw_rows, build_norm_grad},
          {Op::rope, draw_rope, build_rope},
          {Op::causal_softmax, draw_softmax, build_causal_softmax},
          {Op::causal_softmax_grad, draw_softmax, build_causal_softmax_grad},
          {Op::cross_entropy, draw_cross_entropy, build_cross_entropy},
          {Op::cross_entropy_grad, draw_cross_entropy, build_cross_entropy_grad}};
}

}  // namespace fp4sim::fuzz
