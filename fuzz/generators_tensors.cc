// Generator rows of element-wise ops, moves of bits, sums and the optimizer.
#include "fuzz/case_builder.h"

namespace fp4sim::fuzz {
namespace {

void draw_broadcast(Dice& dice, Attrs& args) {
  args.set("repeats", dice.between(1, 20));
  args.set("n", dice.one_in(20) ? dice.between(1000, 3000) : draw_size(dice));
}

/// x of (repeats, n) and b of (n): b repeats over x's rows.
void build_broadcast(const Attrs& args, CaseBuilder& builder) {
  builder.f32({args.integer("repeats"), args.integer("n")});
  builder.f32({args.integer("n")});
}

/// Mostly short, seldom long enough for several threads.
void draw_length(Dice& dice, Attrs& args) {
  const bool many = dice.one_in(20);
  args.set("n", many ? dice.between(10000, 70000) : dice.one_in(6) ? dice.between(200, 3000) : draw_size(dice));
}
void build_one(const Attrs& args, CaseBuilder& builder) { builder.f32({args.integer("n")}); }
void build_gradient_of_one(const Attrs& args, CaseBuilder& builder) {
  builder.f32({args.integer("n")}, "bell");
  builder.f32({args.integer("n")});
}

void draw_scale(Dice& dice, Attrs& args) {
  constexpr double kFactors[] = {0.5, 0.1, 3.0, -1.0, 1e-30, 1e30, 0.35355339059327379, 0.0};
  draw_length(dice, args);
  args.set("factor", dice.pick(kFactors));
}
void build_scale(const Attrs& args, CaseBuilder& builder) {
  build_one(args, builder);
  builder.attr("factor", args.number("factor"));
}

void draw_cast(Dice& dice, Attrs& args) {
  draw_length(dice, args);
  args.set("to", dice.one_in(3) ? "f32" : "bf16");
}
void build_cast(const Attrs& args, CaseBuilder& builder) {
  if (args.text("to") == "bf16")
    builder.f32({args.integer("n")});
  else
    builder.bf16({args.integer("n")});
  builder.attr("to", args.text("to"));
}

void draw_permute(Dice& dice, Attrs& args) {
  constexpr const char* kPermutations[] = {"0,2,1,3", "3,2,1,0", "0,1,3,2", "1,0,2,3", "0,1,2,3", "2,3,0,1", "3,0,1,2"};
  for (const char* name : {"b", "s", "m", "d"}) args.set(name, dice.between(1, 12));
  if (dice.one_in(6)) args.set("d", draw_size(dice));
  args.set("perm", dice.pick(kPermutations));
  args.set("type", dice.one_in(4) ? "bf16" : "f32");
}
void build_permute(const Attrs& args, CaseBuilder& builder) {
  const int64_t b = args.integer("b"), s = args.integer("s"), m = args.integer("m"), d = args.integer("d");
  const Shape shape{b * s, m * d};
  const auto list = [](const Shape& sizes) {
    std::string text;
    for (const int64_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
    return text;
  };
  if (args.text("type") == "f32")
    builder.f32(shape);
  else
    builder.bf16(shape);
  builder.attr("view", list({b, s, m, d}));
  builder.attr("perm", args.text("perm"));
  builder.attr("shape", list({b * m * s * d}));
}

void draw_repeat_kv(Dice& dice, Attrs& args) {
  args.set("b", dice.between(1, 3));
  args.set("groups", dice.between(1, 4));
  args.set("repeats", dice.between(1, 5));
  args.set("s", dice.between(1, 12));
  args.set("d", dice.between(1, 40));
}
void build_repeat(const Attrs& args, CaseBuilder& builder, int64_t copies) {
  builder.f32({args.integer("b") * args.integer("groups") * copies, args.integer("s"), args.integer("d")});
  builder.attr("repeats", args.integer("repeats"));
  builder.attr("groups", args.integer("groups"));
}
void build_repeat_kv(const Attrs& args, CaseBuilder& builder) { build_repeat(args, builder, 1); }
void build_repeat_kv_grad(const Attrs& args, CaseBuilder& builder) {
  build_repeat(args, builder, args.integer("repeats"));
}

void draw_list(Dice& dice, Attrs& args) {
  args.set("inputs", dice.between(1, 5));
  args.set("n", dice.one_in(6) ? dice.between(4000, 9000) : draw_size(dice));
}
/// 1-D inputs of n, n / 2 + 1, n / 3 + 2, … elements.
void build_list(const Attrs& args, CaseBuilder& builder) {
  for (int64_t i = 0; i < args.integer("inputs"); ++i) builder.f32({args.integer("n") / (i + 1) + i});
}

void draw_mean(Dice& dice, Attrs& args) { args.set("n", dice.one_in(3) ? dice.between(4000, 13000) : draw_size(dice)); }

void draw_column_sum(Dice& dice, Attrs& args) {
  args.set("rows", draw_long_size(dice));
  args.set("columns", dice.between(1, args.integer("rows") > 200 ? 20 : dice.one_in(6) ? 900 : 100));
}
void build_column_sum(const Attrs& args, CaseBuilder& builder) {
  builder.f32({args.integer("rows"), args.integer("columns")});
  builder.attr("columns", args.integer("columns"));
}

void build_clip(const Attrs& args, CaseBuilder& builder) {
  builder.f32({args.integer("n")});
  builder.non_negative({});
  builder.step();
}

void draw_adamw(Dice& dice, Attrs& args) {
  constexpr double kDecays[] = {0.0, 0.1, 0.01};
  constexpr double kBeta2[] = {0.95, 0.999};
  constexpr double kEps[] = {1e-8, 1e-5, 0.0};
  draw_length(dice, args);
  args.set("weight_decay", dice.pick(kDecays));
  args.set("beta1", 0.9);
  args.set("beta2", dice.pick(kBeta2));
  args.set("eps", dice.pick(kEps));
}
void build_adamw(const Attrs& args, CaseBuilder& builder) {
  const Shape shape{args.integer("n")};
  builder.f32(shape, "bell");
  builder.f32(shape);
  builder.non_negative(shape);
  builder.f32(shape);
  builder.step();
  for (const char* name : {"weight_decay", "beta1", "beta2", "eps"}) builder.attr(name, args.number(name));
}

}  // namespace

std::vector<OpGenerator> tensor_generators() {
  return {{Op::add, draw_broadcast, build_broadcast},
          {Op::mul, draw_broadcast, build_broadcast},
          {Op::scale, draw_scale, build_scale},
          {Op::cast, draw_cast, build_cast},
          {Op::permute, draw_permute, build_permute},
          {Op::repeat_kv, draw_repeat_kv, build_repeat_kv},
          {Op::repeat_kv_grad, draw_repeat_kv, build_repeat_kv_grad},
          {Op::concat, draw_list, build_list},
          {Op::silu, draw_length, build_one},
          {Op::silu_grad, draw_length, build_gradient_of_one},
          {Op::gelu, draw_length, build_one},
          {Op::gelu_grad, draw_length, build_gradient_of_one},
          {Op::mean, draw_mean, build_one},
          {Op::column_sum, draw_column_sum, build_column_sum},
          {Op::norm, draw_list, build_list},
          {Op::clip, draw_length, build_clip},
          {Op::adamw, draw_adamw, build_adamw}};
}

}  // namespace fp4sim::fuzz
