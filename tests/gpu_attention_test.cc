// Attention on the cuda backend: products that leave out zeros of a causal operand and outputs that nobody reads give
// the bits of scalar, also where something that is left out is not finite or a chain has underflown to −0.
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "tests/gpu_plans.h"

namespace fp4sim::test {
namespace {

struct Size {
  int64_t heads, length, d;
};

/// The four inputs (heads, length, d) by number.
enum Input { kQ, kK, kV, kDo };

/// Element `at` of row `row` of an input.
using Contents = std::function<float(Input, int64_t row, int64_t at)>;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

/// Numbers in ±2 that look random, the same in every run.
float some(Input input, int64_t row, int64_t at) {
  uint64_t v = static_cast<uint64_t>(input * 1000003 + row) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(at) + 1;
  v = (v ^ v >> 31) * 0xD6E8FEB86659FD93u;
  return static_cast<float>(static_cast<int>(v >> 40) - (1 << 23)) * 0x1p-22f;
}

/// Attention of all heads and its gradients.
class Attention {
 public:
  explicit Attention(const Size& s) : size_(s) {
    const Shape shape{s.heads, s.length, s.d};
    const ValueId q = b_.parameter(shape), k = b_.parameter(shape), v = b_.parameter(shape), d_o = b_.parameter(shape);
    const Attrs scale{{"scale", 0.125}};
    const ValueId p = b_.node(Op::causal_softmax, {product(q, k, "last", "last")}, scale);
    const ValueId o = product(p, v, "last", "first");
    const ValueId d_v = product(p, d_o, "first", "first");
    const ValueId d_s = b_.node(Op::causal_softmax_grad, {product(d_o, v, "last", "last"), p}, scale);
    const ValueId d_q = product(d_s, k, "last", "first");
    const ValueId d_k = product(d_s, q, "first", "first");
    b_.graph().results = {o, d_v, d_q, d_k};
  }

  std::vector<std::string> steps() const { return b_.steps(); }

  std::vector<std::vector<float>> run(Backend& backend, const Contents& contents) {
    train::ValueStore store(backend);
    train::Executor executor(backend, b_.graph(), store);
    for (const Input input : {kQ, kK, kV, kDo}) {
      std::vector<float> x(static_cast<size_t>(size_.heads * size_.length * size_.d));
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = contents(input, static_cast<int64_t>(i) / size_.d, static_cast<int64_t>(i) % size_.d);
      store.upload("p" + std::to_string(static_cast<int>(input)), x);
    }
    const StepInfo info{};
    executor.set_input(b_.step(), &info, sizeof info);
    executor.run();
    std::vector<std::vector<float>> values;
    for (const ValueId v : b_.graph().results) values.push_back(executor.read(v));
    return values;
  }

 private:
  ValueId product(ValueId x, ValueId y, const char* axis_x, const char* axis_y) {
    return b_.node(Op::matmul, {x, y}, {{"a_axis", axis_x}, {"b_axis", axis_y}});
  }

  Builder b_{1};
  Size size_;
};

class GpuAttention : public NeedsDevice<> {
 protected:
  void SetUp() override {
    NeedsDevice<>::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    cuda_ = gpu::make_backend();
  }
  void compare(const Size& size, const std::string& what, const Contents& contents) {
    Attention attention(size);
    const auto want = attention.run(*scalar_, contents), got = attention.run(*cuda_, contents);
    ASSERT_EQ(want.size(), got.size());
    const char* const names[] = {"o", "dv", "dq", "dk"};
    for (size_t v = 0; v < want.size(); ++v)
      for (size_t i = 0; i < want[v].size(); ++i) {
        const float e = want[v][i], a = got[v][i];
        ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(e) || (a != a && e != e))
            << what << ", " << size.heads << " heads of " << size.length << " × " << size.d << ": " << names[v]
            << " element " << i << " is " << a << ", expected " << e;
      }
  }

  std::unique_ptr<Backend> scalar_ = scalar::make_backend(), cuda_;
};

const Size kSizes[] = {{1, 1, 4}, {3, 31, 8}, {2, 33, 5}, {2, 128, 64}, {1, 130, 12}, {1, 256, 64}, {1, 301, 66}};

TEST(GpuAttentionPlan, its_products_know_their_triangles) {
  const auto steps = Attention({2, 40, 8}).steps();
  EXPECT_EQ(std::count(steps.begin(), steps.end(), "product(matmul)"), 6);
}

TEST_F(GpuAttention, of_lengths_around_the_tiles) {
  for (const Size& size : kSizes) compare(size, "numbers", some);
}

TEST_F(GpuAttention, of_more_than_one_panel) {
  compare({1, 1100, 8}, "numbers", some);
  compare({1, 1030, 4}, "NaN", [](Input input, int64_t row, int64_t at) {
    return input == kV && row == 1029 && at == 2 ? kNaN : some(input, row, at);
  });
  compare({1, 1030, 4}, "tiny", [](Input input, int64_t row, int64_t at) {
    return input == kV ? std::copysign(kLeast, some(input, row, at)) : some(input, row, at);
  });
}

TEST_F(GpuAttention, where_a_left_out_value_is_not_finite) {
  const float values[] = {kInf, kNaN, -kInf};
  int number = 0;
  for (const Size& size : kSizes)
    for (const Input of : {kQ, kK, kV, kDo})
      for (const int64_t row : {int64_t{0}, size.length / 2, size.length - 1}) {
        const float value = values[number++ % 3];
        compare(size, fmt::format("input {} row {} {}", static_cast<int>(of), row, value),
                [=](Input input, int64_t r, int64_t at) {
                  return input == of && r == row && at == size.d / 2 ? value : some(input, r, at);
                });
      }
}

TEST_F(GpuAttention, where_chains_underflow_to_minus_zero) {
  for (const Size& size : kSizes)
    for (const Input of : {kQ, kK, kV, kDo}) {
      const auto of_sign = [of](int columns) {  // negative in every `columns`-th column, else of any sign
        return [=](Input input, int64_t row, int64_t at) {
          const float v = some(input, row, at);
          if (input != of) return v;
          return at % columns == 0 ? -kLeast : std::copysign(v > 1.0f ? 0.0f : kLeast, v);
        };
      };
      compare(size, fmt::format("input {}", static_cast<int>(of)), of_sign(1));
      compare(size, fmt::format("input {}", static_cast<int>(of)), of_sign(3));
    }
}

}  // namespace
}  // namespace fp4sim::test
