// Products with what follows them on the cuda backend: the sum with a bias, the permute, products of one shape
// together; what joins, and the bits of scalar.
#include <fmt/format.h>

#include "gpu/permutation.h"
#include "tests/gpu_plans.h"

namespace fp4sim::test {
namespace {

using Names = std::vector<std::string>;

// ---- where a permute puts the outputs of a product ----

/// The place in the result of element i of the source.
int64_t place_in_result(const gpu::Permutation& p, int64_t i) {
  std::vector<int64_t> index(p.view.size());
  for (size_t axis = p.view.size(); axis-- > 0;) index[axis] = i % p.view[axis], i /= p.view[axis];
  int64_t place = 0;
  for (const int64_t axis : p.order)
    place = place * p.view[static_cast<size_t>(axis)] + index[static_cast<size_t>(axis)];
  return place;
}

TEST(GpuPlaces, are_those_of_the_permutation_or_none) {
  std::mt19937_64 random(1);
  const auto below = [&random](size_t n) { return static_cast<int64_t>(random() % n); };
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    gpu::Permutation p;
    int64_t elements = 1;
    for (int64_t axes = 1 + below(5); axes > 0; --axes) {
      p.view.push_back(axes == 1 && below(3) > 0 ? 4 * (1 + below(3)) : 1 + below(4));
      p.order.push_back(static_cast<int64_t>(p.order.size()));
      elements *= p.view.back();
    }
    std::shuffle(p.order.begin(), p.order.end() - below(2), random);
    // Sizes of the product that divide the elements.
    const auto divisor = [&](int64_t of) {
      for (;;)
        if (const int64_t d = 1 + below(static_cast<size_t>(of)); of % d == 0) return d;
    };
    const int64_t n = divisor(elements), m = divisor(elements / n), matrices = elements / n / m;
    const auto places = gpu::permuted_places(matrices, m, n, p);
    if (!places) continue;
    ++found;
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t place = places->of_matrix(i / n / m, m, n) + places->of_row(i / n % m, n) + places->of_col(i % n);
      ASSERT_EQ(place, place_in_result(p, i)) << "round " << round << " element " << i;
    }
    if (places->plain) continue;
    EXPECT_EQ(places->inner_cols % 4, 0);
    for (const int64_t step :
         {places->outer_matrix, places->inner_matrix, places->outer_row, places->inner_row, places->outer_col})
      EXPECT_EQ(step % 4, 0) << "quads are not aligned";
  }
  EXPECT_GT(found, 200);
}

TEST(GpuPlaces, those_of_heads_exist) {
  const gpu::Permutation split{{3, 5, 2, 8}, {0, 2, 1, 3}}, join{{3, 2, 5, 8}, {0, 2, 1, 3}};
  EXPECT_TRUE(gpu::permuted_places(1, 15, 16, split));
  EXPECT_TRUE(gpu::permuted_places(6, 5, 8, join));
  EXPECT_FALSE(gpu::permuted_places(1, 15, 16, {{15, 16}, {1, 0}})) << "columns are no neighbours";
  EXPECT_FALSE(gpu::permuted_places(1, 15, 12, {{3, 5, 2, 6}, {0, 2, 1, 3}})) << "no quads";
  EXPECT_TRUE(gpu::permuted_places(2, 3, 5, {{30}, {0}})->plain);
}

// ---- plans ----

/// Both operands of a product, packed by a spec ("" for f32), and the product. a is (matrices, m, k) by axis last.
ValueId product(Builder& b, const std::string& spec, ValueId x, ValueId y, const char* axis_a, const char* axis_b) {
  const auto operand = [&](ValueId v, const char* axis) {
    return spec.empty() ? v : b.node(Op::quantize, {v}, {{"spec", spec}, {"axis", axis}});
  };
  return b.node(Op::matmul, {operand(x, axis_a), operand(y, axis_b)}, {{"a_axis", axis_a}, {"b_axis", axis_b}});
}

/// (batch·length, heads·d) → (batch·heads, length, d).
ValueId split_heads(Builder& b, ValueId x, int64_t batch, int64_t length, int64_t heads, int64_t d) {
  return b.node(Op::permute, {x},
                {{"view", fmt::format("{},{},{},{}", batch, length, heads, d)},
                 {"perm", "0,2,1,3"},
                 {"shape", fmt::format("{},{},{}", batch * heads, length, d)}});
}
ValueId join_heads(Builder& b, ValueId x, int64_t batch, int64_t length, int64_t heads, int64_t d) {
  return b.node(Op::permute, {x},
                {{"view", fmt::format("{},{},{},{}", batch, heads, length, d)},
                 {"perm", "0,2,1,3"},
                 {"shape", fmt::format("{},{}", batch * length, heads * d)}});
}

struct Heads {
  int64_t batch, length, heads, d, k;
};

/// A projection to heads with a bias, causal attention of the heads and back, a projection without a bias to heads, and
/// one with a bias that gelu and its gradient read.
Builder projections(uint64_t seed, const std::string& spec, const Heads& h, unsigned special_in) {
  Builder b(seed, special_in);
  const int64_t rows = h.batch * h.length, width = h.heads * h.d;
  const ValueId x = b.parameter({rows, h.k}), w = b.parameter({width, h.k}), bias = b.parameter({width});
  const ValueId q = b.node(Op::add, {product(b, spec, x, w, "last", "last"), bias});
  const ValueId split = split_heads(b, q, h.batch, h.length, h.heads, h.d);
  const ValueId p = b.node(Op::causal_softmax, {product(b, "", split, split, "last", "last")}, {{"scale", 0.125}});
  const ValueId mixed = product(b, "", p, split, "last", "first");
  const ValueId joined = join_heads(b, mixed, h.batch, h.length, h.heads, h.d);
  const ValueId back = product(b, spec, x, b.parameter({h.k, width}), "last", "first");
  const ValueId other = split_heads(b, back, h.batch, h.length, h.heads, h.d);
  const ValueId up =
      b.node(Op::add, {product(b, spec, joined, b.parameter({20, width}), "last", "last"), b.parameter({20})});
  const ValueId h_up = b.node(Op::gelu, {up});
  b.graph().results = {split, joined, other, b.node(Op::gelu_grad, {h_up, up})};
  return b;
}

TEST(GpuProductPlans, biases_and_permutes_join_the_product_before_them) {
  EXPECT_EQ(projections(1, "", {2, 5, 3, 8, 7}, 0).steps(),
            (Names{"product(matmul, add, permute)", "product(matmul)", "causal_softmax", "product(matmul, permute)",
                   "product(matmul, permute)", "product(matmul, add)", "elements(gelu, gelu_grad)"}));
}

TEST(GpuProductPlans, what_others_see_or_no_epilogue_can_say_stays_apart) {
  Builder b(1);
  const ValueId x = b.parameter({6, 7}), w = b.parameter({12, 7}), bias = b.parameter({12});
  const ValueId seen = product(b, "", x, w, "last", "last");
  const ValueId sum = b.node(Op::add, {seen, bias});
  const ValueId reversed = b.node(Op::add, {b.parameter({6, 12}), product(b, "", x, w, "last", "last")});
  const ValueId odd = split_heads(b, product(b, "", x, w, "last", "last"), 2, 3, 2, 6);
  b.graph().results = {seen, sum, reversed, odd};
  EXPECT_EQ(b.steps(), (Names{"matmul", "add", "matmul", "add", "matmul", "permute"}));
}

/// Three projections of one matrix to heads, the gradients of that matrix and of their weights.
Builder three_heads(uint64_t seed, const Heads& h, unsigned special_in, bool biased) {
  Builder b(seed, special_in);
  const auto packed = [&](ValueId v, const char* axis) {
    return b.node(Op::quantize, {v}, {{"spec", "mxfp4"}, {"axis", axis}});
  };
  const auto times = [&](ValueId x, ValueId y, const char* axis_x, const char* axis_y) {
    return b.node(Op::matmul, {x, y}, {{"a_axis", axis_x}, {"b_axis", axis_y}});
  };
  const int64_t rows = h.batch * h.length, width = h.heads * h.d;
  const ValueId x = b.parameter({rows, h.k});
  const ValueId rows_of_x = packed(x, "last"), columns_of_x = packed(x, "first");
  std::vector<ValueId> weights, gradients, bias;
  for (int i = 0; i < 3; ++i) {
    weights.push_back(b.parameter({width, h.k}));
    gradients.push_back(b.parameter({rows, width}));
    bias.push_back(b.parameter({width}));
  }
  std::vector<ValueId> w_rows, w_columns, g_rows, g_columns;
  for (const ValueId w : weights) w_rows.push_back(packed(w, "last")), w_columns.push_back(packed(w, "first"));
  for (const ValueId g : gradients) g_rows.push_back(packed(g, "last")), g_columns.push_back(packed(g, "first"));
  std::vector<ValueId> dx;
  for (size_t i = 0; i < 3; ++i) {
    ValueId y = times(rows_of_x, w_rows[i], "last", "last");
    if (biased) y = b.node(Op::add, {y, bias[i]});
    b.graph().results.push_back(split_heads(b, y, h.batch, h.length, h.heads, h.d));
  }
  for (size_t i = 0; i < 3; ++i) dx.push_back(times(g_rows[i], w_columns[i], "last", "first"));
  for (size_t i = 0; i < 3; ++i) b.graph().results.push_back(times(g_columns[i], columns_of_x, "first", "first"));
  b.graph().results.push_back(b.node(Op::add, {b.node(Op::add, {dx[0], dx[1]}), dx[2]}));
  return b;
}

TEST(GpuProductPlans, products_of_one_shape_run_together) {
  for (const bool biased : {true, false}) {
    std::vector<std::string> steps = three_heads(1, {2, 5, 3, 8, 32}, 0, biased).steps();
    std::erase_if(steps, [](const std::string& step) { return step.find("matmul") == std::string::npos; });
    EXPECT_EQ(steps, (Names{biased ? "product(matmul, add, permute) x 3" : "product(matmul, permute) x 3",
                            "product(matmul) x 3", "product(matmul) x 3"}));
  }
}

TEST_F(GpuPlans, products_that_run_together_give_the_bits_of_scalar) {
  const Heads sizes[] = {{2, 5, 3, 8, 32}, {1, 70, 2, 64, 96}, {3, 50, 3, 12, 2080}, {5, 480, 1, 36, 33}};
  uint64_t seed = 100;
  for (const Heads& h : sizes)
    for (const unsigned special_in : {0u, 5000u, 40u})  // of those the last two leave operands whose scales do not fit
      expect_bits_of_scalar(three_heads(++seed, h, special_in, special_in != 0),
                            fmt::format("d {} k {} specials {}", h.d, h.k, special_in));
}

TEST_F(GpuPlans, products_with_biases_and_permutes_give_the_bits_of_scalar) {
  const Heads sizes[] = {{2, 5, 3, 8, 7},      {1, 70, 2, 64, 96}, {3, 50, 3, 12, 2080},
                         {1, 60, 2, 32, 1024}, {2, 3, 1, 4, 33},   {1, 33, 5, 6, 40}};
  uint64_t seed = 1;
  for (const char* spec : {"", "bf16", "mxfp4", "nvfp4", "e2m1:row:fp32", "e4m3:row:fp32", "mxfp8e4m3", "mxfp6e2m3"})
    for (const Heads& h : sizes)
      for (const unsigned special_in : {0u, 5000u})
        expect_bits_of_scalar(projections(++seed, spec, h, special_in),
                              fmt::format("{} d {} k {} specials {}", spec, h.d, h.k, special_in));
}

}  // namespace
}  // namespace fp4sim::test
