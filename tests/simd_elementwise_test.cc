// Element-wise ops, the optimizer and ops that move data: every level gives scalar's bits.
#include "reference/contract/error.h"
#include "tests/simd_levels.h"

namespace fp4sim::test {
namespace {

/// One random case: a seed, a length and a fill.
struct Draw {
  uint64_t seed = *rc::gen::arbitrary<uint64_t>();
  int64_t n = *rc::gen::elementOf(kLengths);
  Fill fill = *rc::gen::element(Fill::ordinary, Fill::wide, Fill::corners);

  HostValue values(uint64_t salt, const Shape& shape) const {
    return f32_value(shape, random_floats(seed + salt, element_count(shape), fill));
  }
};

void expect_unary(Op op, const Attrs& attrs = {}) {
  rc::check([&] {
    const Draw draw;
    const testing::AssertionResult same = levels_give_scalar_bits(op, {draw.values(0, {draw.n})}, attrs);
    if (!same) RC_FAIL(same.message());
  });
  for (const Fill fill : kFills)
    EXPECT_TRUE(levels_give_scalar_bits(op, {f32_value({70001}, random_floats(11, 70001, fill))}, attrs));
}

void expect_pairs(Op op) {
  rc::check([&] {
    const Draw draw;
    const testing::AssertionResult same =
        levels_give_scalar_bits(op, {draw.values(0, {draw.n}), draw.values(1, {draw.n})});
    if (!same) RC_FAIL(same.message());
  });
  for (const Fill fill : kFills)
    EXPECT_TRUE(levels_give_scalar_bits(
        op, {f32_value({70001}, random_floats(11, 70001, fill)), f32_value({70001}, random_floats(12, 70001, fill))}));
}

void expect_broadcast(Op op) {
  rc::check([&] {
    const Draw draw;
    const int64_t copies = *rc::gen::inRange<int64_t>(1, 9);
    const testing::AssertionResult same =
        levels_give_scalar_bits(op, {draw.values(0, {copies, draw.n}), draw.values(1, {draw.n})});
    if (!same) RC_FAIL(same.message());
  });
  for (const int64_t period : {1, 3, 1000, 1023, 1024, 1025, 30000})
    EXPECT_TRUE(levels_give_scalar_bits(op, {f32_value({3, period}, random_floats(5, 3 * period, Fill::corners)),
                                             f32_value({period}, random_floats(6, period, Fill::corners))}));
  EXPECT_TRUE(levels_give_scalar_bits(op, {f32_value({90000}, random_floats(5, 90000, Fill::wide)),
                                           f32_value({90}, random_floats(6, 90, Fill::wide))}));
  EXPECT_TRUE(levels_give_scalar_bits(op, {f32_value({0, 4}, {}), f32_value({4}, {1, 2, 3, 4})}));
}

TEST(SimdElementwise, add_repeats_the_second_operand) { expect_broadcast(Op::add); }
TEST(SimdElementwise, mul_repeats_the_second_operand) { expect_broadcast(Op::mul); }
TEST(SimdElementwise, scale_rounds_its_factor_once) { expect_unary(Op::scale, {{"factor", 0.1}}); }
TEST(SimdElementwise, silu_has_the_bits_of_the_binary64_formula) { expect_unary(Op::silu); }
TEST(SimdElementwise, gelu_has_the_bits_of_the_binary64_formula) { expect_unary(Op::gelu); }
TEST(SimdElementwise, silu_grad_has_the_bits_of_the_binary64_formula) { expect_pairs(Op::silu_grad); }
TEST(SimdElementwise, gelu_grad_has_the_bits_of_the_binary64_formula) { expect_pairs(Op::gelu_grad); }

TEST(SimdElementwise, activations_agree_on_a_walk_through_all_floats) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (1ull << 32); bits += 40009) x.push_back(std::bit_cast<float>(uint32_t(bits)));
  const auto n = static_cast<int64_t>(x.size());
  const HostValue values = f32_value({n}, x), ones = f32_value({n}, std::vector<float>(x.size(), 1.0f));
  for (const Op op : {Op::silu, Op::gelu}) EXPECT_TRUE(levels_give_scalar_bits(op, {values}));
  for (const Op op : {Op::silu_grad, Op::gelu_grad}) EXPECT_TRUE(levels_give_scalar_bits(op, {ones, values}));
}

TEST(SimdElementwise, clip_divides_out_the_loss_scale_and_then_scales_down) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const float norm : {0.0f, 0.5f, 1.0f, 3.7f, kInfinity, kNaN}) {
    for (const float limit : {1.0f, 0.3f, kInfinity}) {
      StepInfo step;
      step.clip_norm = limit;
      step.loss_scale = 1024;
      EXPECT_TRUE(levels_give_scalar_bits(Op::clip, {f32_value({20011}, random_floats(3, 20011, Fill::corners)),
                                                     f32_value({}, {norm}), step_value(step)}));
    }
  }
}

TEST(SimdElementwise, adamw_updates_in_place_or_not_at_all) {
  const Attrs attrs{{"weight_decay", 0.1}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}};
  rc::check([&] {
    const Draw draw;
    StepInfo step;
    step.lr = *rc::gen::element(3e-4, 0.0, 1.0);
    step.beta1_power = 0.9;
    step.beta2_power = *rc::gen::element(0.95, 0.9025, 0.0);
    step.skip = *rc::gen::element(0u, 1u);
    const testing::AssertionResult same =
        levels_give_scalar_bits(Op::adamw,
                                {draw.values(0, {draw.n}), draw.values(1, {draw.n}), draw.values(2, {draw.n}),
                                 draw.values(3, {draw.n}), step_value(step)},
                                attrs);
    if (!same) RC_FAIL(same.message());
  });
  StepInfo step;
  step.lr = 1e-3, step.beta1_power = 0.81, step.beta2_power = 0.9025;
  std::vector<HostValue> large;
  for (const uint64_t seed : {1, 2, 3, 4})
    large.push_back(f32_value({50021}, random_floats(seed, 50021, Fill::ordinary)));
  large.push_back(step_value(step));
  EXPECT_TRUE(levels_give_scalar_bits(Op::adamw, large, attrs));
}

TEST(SimdMovement, permute_moves_bits_of_any_view) {
  struct Row {
    const char *view, *perm, *shape;
    Shape from;
  };
  const Row rows[] = {{"2,33,3,16", "0,2,1,3", "6,33,16", {66, 48}},
                      {"2,33,3,16", "0,2,3,1", "2,48,33", {66, 48}},
                      {"5,7", "1,0", "7,5", {5, 7}},
                      {"300,257", "1,0", "257,300", {300, 257}},
                      {"4,1,9", "0,1,2", "4,9", {36}},
                      {"1,1", "1,0", "1", {1}},
                      {"2,3,4,5", "3,2,1,0", "120", {120}},
                      {"64,128,8", "1,0,2", "128,512", {64, 1024}},
                      {"0,4", "1,0", "4,0", {0, 4}}};
  for (const Row& row : rows) {
    const Attrs attrs{{"view", row.view}, {"perm", row.perm}, {"shape", row.shape}};
    const int64_t n = element_count(row.from);
    EXPECT_TRUE(levels_give_scalar_bits(Op::permute, {f32_value(row.from, random_floats(2, n, Fill::corners))}, attrs))
        << row.view << " by " << row.perm;
    std::vector<uint16_t> halves(static_cast<size_t>(n));
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i * 40503u);
    EXPECT_TRUE(levels_give_scalar_bits(Op::permute, {bf16_value(row.from, halves)}, attrs));
  }
}

TEST(SimdMovement, repeat_kv_copies_heads_and_its_gradient_adds_them_in_order) {
  for (const int64_t repeats : {1, 2, 3, 8}) {
    const Attrs attrs{{"repeats", repeats}, {"groups", int64_t{3}}};
    const int64_t small = 6 * 5 * 7, large = 6 * 64 * 65;
    EXPECT_TRUE(
        levels_give_scalar_bits(Op::repeat_kv, {f32_value({6, 5, 7}, random_floats(1, small, Fill::corners))}, attrs));
    EXPECT_TRUE(levels_give_scalar_bits(
        Op::repeat_kv_grad, {f32_value({6 * repeats, 5, 7}, random_floats(1, small * repeats, Fill::corners))}, attrs));
    EXPECT_TRUE(levels_give_scalar_bits(
        Op::repeat_kv_grad, {f32_value({6 * repeats, 64, 65}, random_floats(1, large * repeats, Fill::wide))}, attrs));
  }
}

TEST(SimdMovement, concat_joins_in_input_order) {
  EXPECT_TRUE(levels_give_scalar_bits(
      Op::concat, {f32_value({3}, random_floats(1, 3, Fill::corners)), f32_value({0}, {}),
                   f32_value({70001}, random_floats(2, 70001, Fill::corners)), f32_value({1}, {-0.0f})}));
}

TEST(SimdMovement, embedding_copies_rows_and_its_gradient_adds_positions_by_panels) {
  for (const int64_t positions : {1, 33, 1023, 1024, 1025, 3000}) {
    for (const int64_t width : {1, 17, 130}) {
      std::vector<int32_t> ids(static_cast<size_t>(positions));
      std::mt19937 random(7);
      // Most positions share few ids, so that their sums cross panels; id 19 appears nowhere.
      for (int32_t& id : ids)
        id = random() % 3 != 0 ? static_cast<int32_t>(random() % 2) : static_cast<int32_t>(random() % 19);
      const HostValue where = i32_value({positions}, ids);
      EXPECT_TRUE(levels_give_scalar_bits(
          Op::embedding, {where, f32_value({20, width}, random_floats(5, 20 * width, Fill::corners))}));
      for (const Fill fill : kFills)
        EXPECT_TRUE(levels_give_scalar_bits(
            Op::embedding_grad, {where, f32_value({positions, width}, random_floats(5, positions * width, fill))},
            {{"rows", int64_t{20}}}));
    }
  }
}

TEST(SimdMovement, an_id_outside_the_table_is_an_error_before_any_thread_starts) {
  const auto backend = simd::make_backend(2);
  EXPECT_THROW(run_node(*backend, Op::embedding, {i32_value({2}, {0, 3}), f32_value({3, 1}, {1, 2, 3})}), Error);
}

}  // namespace
}  // namespace fp4sim::test
