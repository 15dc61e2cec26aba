// Plans around layernorm: the sums of gradients before and behind its gradient, the residual sums and quantizations
// around it. In every combination of what is seen they give the bits of scalar.
#include "tests/gpu_plans.h"

namespace fp4sim::test {
namespace {

/// The gradient of a layernorm with `before` sums of gradients before it and one behind it.
struct GradCase {
  Shape shape;
  int before = 2;
  bool behind = true;
  int seen = 0;          // bit i: the sum i before the norm, bit 2: dx, is a result
  bool swapped = false;  // the chain comes in as the second input of sums
};

Builder plan_of(const GradCase& c) {
  Builder b(static_cast<uint64_t>(c.shape.front() * 16 + c.seen));
  const auto sum = [&](ValueId x) {
    const ValueId other = b.parameter(c.shape);
    return b.node(Op::add, c.swapped ? std::vector<ValueId>{other, x} : std::vector<ValueId>{x, other});
  };
  ValueId dy = b.parameter(c.shape);
  const ValueId x = b.parameter(c.shape), g = b.parameter({c.shape.back()});
  for (int i = 0; i < c.before; ++i) {
    dy = sum(dy);
    if ((c.seen >> i & 1) != 0) b.graph().results.push_back(dy);
  }
  const auto all = add_node(b.graph(), Op::layernorm_grad, {dy, x, g}, {{"eps", 1e-5}});
  b.graph().results.insert(b.graph().results.end(), {all[1], all[2]});
  if ((c.seen & 4) != 0 || !c.behind) b.graph().results.push_back(all[0]);
  if (c.behind) b.graph().results.push_back(sum(all[0]));
  return b;
}

TEST(GpuNormSchedule, sums_of_gradients_join_their_norm) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(plan_of({{9, 40}}).steps(), (Names{"norm and sums(add, add, layernorm_grad, add)"}));
  EXPECT_EQ(plan_of({{9, 40}, 1, true, 0, true}).steps(), (Names{"norm and sums(add, layernorm_grad, add)"}));
  EXPECT_EQ(plan_of({{9, 40}, 0}).steps(), (Names{"norm and sums(layernorm_grad, add)"}));
  EXPECT_EQ(plan_of({{9, 40}, 2, false}).steps(), (Names{"norm and sums(add, add, layernorm_grad)"}));
  EXPECT_EQ(plan_of({{9, 40}, 3}).steps(), (Names{"add", "norm and sums(add, add, layernorm_grad, add)"}));
  EXPECT_EQ(plan_of({{9, 600}, 1}).steps(), (Names{"add", "layernorm_grad", "add"})) << "a warp cannot hold the row";
}

class GpuNormPlans : public GpuPlans {};

TEST_F(GpuNormPlans, sums_of_gradients_of_every_width) {
  for (const int64_t width : {1, 33, 128, 130, 256, 384, 400, 512, 514})
    for (const int before : {0, 1, 2, 3})
      expect_bits_of_scalar(plan_of({{width == 33 ? 1100 : 11, width}, before, before != 1, 0, before == 2}),
                            "width " + std::to_string(width) + " sums " + std::to_string(before));
}

TEST_F(GpuNormPlans, sums_of_gradients_that_others_see) {
  for (const int before : {1, 2})
    for (const bool behind : {false, true})
      for (int seen = 0; seen < 8; ++seen)
        for (const bool swapped : {false, true})
          expect_bits_of_scalar(plan_of({{37, 96}, before, behind, seen, swapped}), "seen " + std::to_string(seen));
}

/// Residual sums, their layernorm and its quantizations.
struct NormCase {
  Shape shape;
  bool last = true, first = true;  // the norm is quantized along this axis
  const char* spec = "mxfp4";
  int sums = 1;          // before the norm
  bool bias = false;     // the first sum's operand is one row
  bool seen = false;     // others read the norm,
  bool sum_seen = true;  // the sum before it
  unsigned special_in = 97;
};

Builder plan_of(const NormCase& c) {
  Builder b(static_cast<uint64_t>(c.shape.front() * 7 + c.sums), c.special_in);
  const Shape row = {c.shape.back()};
  ValueId x = b.parameter(c.shape);
  const ValueId g = b.parameter(row), beta = b.parameter(row);
  for (int i = 0; i < c.sums; ++i) x = b.node(Op::add, {x, b.parameter(i == 0 && c.bias ? row : c.shape)});
  const ValueId norm = b.node(Op::layernorm, {x, g, beta}, {{"eps", 1e-5}});
  const bool stochastic = std::string(c.spec).ends_with("sr32");
  for (const char* axis : {"last", "first"}) {
    if (!(axis[0] == 'l' ? c.last : c.first)) continue;
    const std::vector<ValueId> in = stochastic ? std::vector<ValueId>{norm, b.step()} : std::vector<ValueId>{norm};
    Attrs attrs = {{"spec", c.spec}, {"axis", std::string(axis)}};
    if (stochastic) attrs.set("stream", int64_t{axis[0] == 'l'}), attrs.set("row_offset", int64_t{8});
    b.graph().results.push_back(b.node(Op::dequantize, {b.node(Op::quantize, in, attrs)}));
  }
  if (c.seen) b.graph().results.push_back(b.node(Op::scale, {norm}, {{"factor", 2.0}}));
  if (c.sum_seen) b.graph().results.push_back(x);
  return b;
}

std::string to_string(const NormCase& c) {
  return fp4sim::to_string(ValueType{DType::f32, c.shape, {}, Axis::last}) + ' ' + c.spec + (c.last ? " last" : "") +
         (c.first ? " first" : "") + (c.seen ? " seen" : "") + (c.bias ? " bias " : " ") + std::to_string(c.sums);
}

TEST_F(GpuNormPlans, quantized_norms_with_and_without_tails) {
  for (const Shape& shape :
       {Shape{1, 32}, Shape{31, 32}, Shape{32, 384}, Shape{33, 352}, Shape{100, 64}, Shape{2100, 96}, Shape{3, 64, 128},
        Shape{3, 33, 96}, Shape{2, 32, 384}, Shape{1, 45, 160}, Shape{64, 104}, Shape{40, 416}})
    for (const unsigned special_in : {0u, 997u, 97u}) {
      const bool whole = shape.back() % 32 == 0;
      const NormCase c{.shape = shape, .last = whole, .special_in = special_in};
      expect_bits_of_scalar(plan_of(c), to_string(c));
    }
}

TEST_F(GpuNormPlans, quantized_norms_of_every_spec_axis_and_reader) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:b32:e8m0/even:rne", "e2m1:b16:e8m0/rceil:rne",
                           "e2m1:b32:e8m0/floor:sr32", "e4m3:b32:e8m0/floor:rne"})
    for (const int axes : {1, 2, 3})
      for (const int sums : {1, 2, 3})
        for (const bool seen : {false, true}) {
          const bool bias = seen == (axes == 3);
          const NormCase c{{70, 96}, (axes & 1) != 0, (axes & 2) != 0, spec, sums, bias, seen, sums == 1 || seen};
          expect_bits_of_scalar(plan_of(c), to_string(c));
        }
}

}  // namespace
}  // namespace fp4sim::test
