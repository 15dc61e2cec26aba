// Generator rows of the products (numerics.md §7) and the tables.
#include "fuzz/case_builder.h"
#include "fuzz/specs.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

/// (…, rows, k) or (…, k, rows) by the axis; batch 0 means no leading dimension.
Shape operand_shape(int64_t batch, int64_t rows, int64_t k, Axis axis) {
  Shape shape;
  if (batch > 0) shape.push_back(batch);
  shape.push_back(axis == Axis::last ? rows : k);
  shape.push_back(axis == Axis::last ? k : rows);
  return shape;
}

/// Sizes of a product: small; sometimes many tiles in one direction (rows 1024 elements apart share cache sets and take
/// their own path); sometimes a long contraction.
void draw_product_sizes(Dice& dice, Attrs& args) {
  constexpr int64_t kWide[] = {512, 1024, 1024, 2048};
  const int64_t k = draw_long_size(dice);
  args.set("k", k);
  args.set("batch", k < 200 && dice.one_in(3) ? dice.between(1, 3) : int64_t{0});
  const int64_t rows = k > 200 ? 6 : 40;
  args.set("m", dice.one_in(20) ? int64_t{0} : dice.between(1, dice.one_in(4) ? 2 * rows : rows / 2));
  args.set("n", dice.between(1, dice.one_in(4) ? 2 * rows : rows / 2));
  if (!dice.one_in(8)) return;
  const bool wide = dice.one_in(2);
  const char* longer = wide ? "n" : "m";
  args.set(longer, dice.one_in(2) ? dice.pick(kWide) : dice.between(100, 1100));
  args.set(wide ? "m" : "n", dice.between(1, k > 200 ? 2 : 5));
  args.set("batch", int64_t{0});
}

void draw_matmul(Dice& dice, Attrs& args) {
  draw_product_sizes(dice, args);
  args.set("a_axis", draw_axis(dice));
  args.set("b_axis", draw_axis(dice));
  args.set("codes", dice.below(2));
  constexpr const char* kPlain[] = {"f32", "f32", "bf16"};
  const bool plain = dice.one_in(4);
  std::string a = plain || dice.one_in(5) ? dice.pick(kPlain) : draw_spec(dice);
  std::string b = plain || dice.one_in(5) ? dice.pick(kPlain) : draw_spec(dice);
  const bool packed_a = a != "f32" && a != "bf16";
  if (packed_a && dice.one_in(2)) b = draw_partner(dice, a);
  args.set("a_format", std::move(a));
  args.set("b_format", std::move(b));
}

void build_matmul(const Attrs& args, CaseBuilder& builder) {
  const int64_t k = args.integer("k"), batch = args.integer("batch");
  const auto codes = static_cast<Codes>(args.integer("codes"));
  for (const char* side : {"a", "b"}) {
    const Axis axis = parse_axis(args.text(std::string(side) + "_axis"));
    const int64_t rows = args.integer(side == std::string("a") ? "m" : "n");
    builder.operand(operand_shape(batch, rows, k, axis), args.text(std::string(side) + "_format"), axis, codes);
    builder.attr(std::string(side) + "_axis", to_string(axis));
  }
}

void draw_sparse(Dice& dice, Attrs& args) {
  args.set("spec", draw_occ_spec(dice, false));
  args.set("k", draw_long_size(dice));
  args.set("m", draw_size(dice) % 40);
  args.set("axis", draw_axis(dice));
}

void draw_sparse_matmul(Dice& dice, Attrs& args) {
  draw_sparse(dice, args);
  args.set("n", dice.between(1, 24));
  args.set("other_axis", draw_axis(dice));
  args.set("side", dice.one_in(2) ? "a" : "b");
}

void build_sparse_matmul(const Attrs& args, CaseBuilder& builder) {
  const Axis axis = parse_axis(args.text("axis")), other = parse_axis(args.text("other_axis"));
  const int64_t k = args.integer("k");
  builder.csr(operand_shape(0, args.integer("m"), k, axis), args.text("spec"), axis);
  builder.f32(operand_shape(0, args.integer("n"), k, other));
  builder.attr("side", args.text("side"));
  builder.attr("other_axis", to_string(other));
}

void build_add_residual(const Attrs& args, CaseBuilder& builder) {
  const Axis axis = parse_axis(args.text("axis"));
  const Shape shape = operand_shape(0, args.integer("m"), args.integer("k"), axis);
  builder.f32(shape);
  builder.csr(shape, args.text("spec"), axis);
}

void draw_embedding(Dice& dice, Attrs& args) {
  args.set("t", draw_size(dice));
  args.set("v", dice.between(1, 60));
  args.set("columns", dice.between(1, 70));
}

void build_embedding(const Attrs& args, CaseBuilder& builder) {
  builder.indices(args.integer("t"), args.integer("v"));
  builder.f32({args.integer("v"), args.integer("columns")});
}

void draw_embedding_grad(Dice& dice, Attrs& args) {
  args.set("t", draw_long_size(dice));
  args.set("v", dice.between(1, 12));
  args.set("columns", dice.between(1, 40));
}

void build_embedding_grad(const Attrs& args, CaseBuilder& builder) {
  builder.indices(args.integer("t"), args.integer("v"));
  builder.f32({args.integer("t"), args.integer("columns")});
  builder.attr("rows", args.integer("v"));
}

}  // namespace

std::vector<OpGenerator> product_generators() {
  return {{Op::matmul, draw_matmul, build_matmul},
          {Op::sparse_matmul, draw_sparse_matmul, build_sparse_matmul},
          {Op::add_residual, draw_sparse, build_add_residual},
          {Op::embedding, draw_embedding, build_embedding},
          {Op::embedding_grad, draw_embedding_grad, build_embedding_grad}};
}

}  // namespace fp4sim::fuzz
