// The readers of one matrix that quantize it or sum its columns, behind element-wise ops or not: they become one step,
// and every byte of their results is scalar's.
#include "tests/gpu_plans.h"

namespace fp4sim::test {
namespace {

enum class Maker { none, gelu, gelu_grad, slope, sums };  // what makes the matrix
enum class Numbers { plain, wild };                       // wild: NaN, infinities, zeros, subnormals, all magnitudes

struct TileCase {
  Shape shape;
  bool last, first, sum;
  std::string spec = "mxfp4";
  Maker maker = Maker::none;
  bool seen = false;  // the matrix itself is a result, too
  Numbers numbers = Numbers::wild;
  int steps = 1;
};

/// The graph of a case; `step` is its input.
struct TileGraph {
  Graph graph;
  ValueId step;
};

TileGraph graph_of(const TileCase& c) {
  TileGraph g{{}, kNoValue};
  Graph& graph = g.graph;
  g.step = add_value(graph, step_type(), ValueKind::input, "step");
  const auto parameter = [&](const std::string& name, Shape shape) {
    return add_value(graph, {DType::f32, std::move(shape), {}, Axis::last}, ValueKind::parameter, name);
  };
  const auto node = [&](Op op, std::vector<ValueId> in, Attrs attrs = {}) {
    return add_node(graph, op, std::move(in), std::move(attrs)).front();
  };
  const int64_t columns = c.shape.back();
  ValueId x = parameter("x", c.shape);
  const ValueId other = parameter("other", c.shape), row = parameter("row", {columns});
  switch (c.maker) {
    case Maker::none: break;
    case Maker::gelu: x = node(Op::gelu, {x}); break;
    case Maker::gelu_grad: x = node(Op::gelu_grad, {x, other}); break;
    case Maker::slope: x = node(Op::gelu_grad, {other, node(Op::add, {x, row})}); break;
    case Maker::sums: x = node(Op::mul, {node(Op::add, {node(Op::scale, {x}, {{"factor", 0.5}}), other}), row}); break;
  }
  if (c.seen) graph.results.push_back(x);
  const auto quantized = [&](const char* axis) {
    const bool random = parse_quant_spec(c.spec).rounding == Rounding::sr32;
    Attrs attrs{{"spec", c.spec}, {"axis", axis}};
    if (random) attrs.set("stream", int64_t{axis[0]}), attrs.set("row_offset", int64_t{8});
    graph.results.push_back(random ? node(Op::quantize, {x, g.step}, attrs) : node(Op::quantize, {x}, attrs));
  };
  if (c.last) quantized("last");
  if (c.sum) graph.results.push_back(node(Op::column_sum, {x}, {{"columns", columns}}));
  if (c.first) quantized("first");
  return g;
}

/// Numbers near 1; wild ones in stretches, so that some blocks are all zeros and most are finite.
std::vector<float> drawn(int64_t n, Numbers numbers, std::mt19937& random) {
  std::vector<float> x(static_cast<size_t>(n));
  uint32_t stretch = 0;
  for (float& v : x) {
    v = static_cast<float>(static_cast<int>(random() >> 8) - (1 << 23)) * 0x1p-21f;
    if (numbers == Numbers::plain) continue;
    if (random() % 64 == 0) stretch = random() % 8;
    if (stretch == 0) v = random() % 2 == 0 ? 0.0f : -0.0f;
    if (stretch == 1) v *= 0x1p-130f;
    if (stretch == 2) v *= 0x1p+20f;
    if (random() % 500 == 0) v = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (random() % 3000 == 0) v = std::bit_cast<float>(0x7F800000u | static_cast<uint32_t>(random() << 22));
  }
  return x;
}

/// The bytes of all results after a run of the compiled plan.
std::vector<std::vector<uint8_t>> results_of(const TileCase& c, Backend& backend, int* steps) {
  const TileGraph g = graph_of(c);
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> tensors;
  std::mt19937 random(7);
  for (const Value& value : g.graph.values) {
    owned.push_back(allocate_tensor(backend, value.type));
    tensors.push_back(owned.back().tensor);
    if (value.kind != ValueKind::parameter) continue;
    const std::vector<float> x = drawn(element_count(value.type.shape), c.numbers, random);
    backend.upload(tensors.back().parts[0], x.data(), static_cast<int64_t>(x.size() * sizeof(float)));
  }
  const StepInfo info{.seed = 99, .step = 3};
  backend.upload(tensors[static_cast<size_t>(g.step)].parts[0], &info, sizeof info);
  if (steps != nullptr) *steps = static_cast<int>(gpu::schedule({g.graph, tensors}).size());
  const std::unique_ptr<Program> program = backend.compile({g.graph, tensors});
  program->run();
  backend.synchronize();
  std::vector<std::vector<uint8_t>> bytes;
  for (const ValueId v : g.graph.results)
    for (const Part& part : tensors[static_cast<size_t>(v)].parts) {
      if (part.buffer == nullptr || part.bytes == 0) continue;
      std::vector<uint8_t>& list = bytes.emplace_back(static_cast<size_t>(part.bytes));
      backend.download(part, list.data(), part.bytes);
      if (g.graph.type(v).dtype != DType::f32) continue;
      auto* x = reinterpret_cast<float*>(list.data());
      for (int64_t i = 0; i < part.bytes / 4; ++i)
        if (x[i] != x[i]) x[i] = std::bit_cast<float>(kF32CanonicalNaN);
    }
  return bytes;
}

class GpuTiles : public NeedsDevice<> {
 protected:
  static void expect_bytes_of_scalar(const TileCase& c, const std::string& what) {
    int steps = 0;
    const auto want = results_of(c, *scalar::make_backend(), nullptr);
    const auto got = results_of(c, *gpu::make_backend({.device = 0}), &steps);
    EXPECT_EQ(steps, c.steps) << what;
    ASSERT_EQ(got.size(), want.size());
    for (size_t r = 0; r < want.size(); ++r)
      for (size_t i = 0; i < want[r].size(); ++i)
        ASSERT_EQ(int{got[r][i]}, int{want[r][i]}) << what << ": component " << r << " byte " << i;
  }
};

TEST_F(GpuTiles, shapes_with_and_without_tails_give_the_bytes_of_scalar) {
  const Shape shapes[] = {{32, 32},    {1, 32},      {1024, 32},  {1025, 64}, {2100, 96},  {33, 160},
                          {3, 40, 64}, {2, 64, 128}, {5, 17, 32}, {31, 1024}, {1, 1, 256}, {513, 32}};
  for (const Shape& shape : shapes) {
    const bool whole = shape.size() == 2 || shape[0] == 1 || shape[1] % 32 == 0;  // panels are whole tiles
    for (const Numbers numbers : {Numbers::plain, Numbers::wild}) {
      const std::string what = to_string(ValueType{DType::f32, shape, {}, Axis::last});
      expect_bytes_of_scalar({shape, true, true, false, "mxfp4", Maker::none, false, numbers}, what + " both");
      expect_bytes_of_scalar({shape, true, true, true, "mxfp4", Maker::none, false, numbers, whole ? 1 : 2},
                             what + " both and sum");
    }
  }
}

TEST_F(GpuTiles, blocks_that_walk_many_rounds_give_the_bytes_of_scalar) {
  expect_bytes_of_scalar({{4500, 1024}, true, true, false}, "both");
  expect_bytes_of_scalar({{3000, 320}, true, true, true, "mxfp4", Maker::gelu_grad}, "gradient");
}

TEST_F(GpuTiles, columns_that_fill_no_tile_give_the_bytes_of_scalar) {
  for (const int64_t columns : {8, 24, 40, 72})
    for (const Maker maker : {Maker::none, Maker::gelu_grad})
      expect_bytes_of_scalar({{70, columns}, false, true, true, "mxfp4", maker, true}, std::to_string(columns));
  expect_bytes_of_scalar({{1100, 12}, false, false, true, "mxfp4", Maker::sums}, "no quantization");
  expect_bytes_of_scalar({{70, 48}, true, true, true, "e2m1:b16:e8m0/floor:rne"}, "blocks of 16");
}

TEST_F(GpuTiles, element_wise_ops_run_on_the_way) {
  for (const Maker maker : {Maker::gelu, Maker::gelu_grad, Maker::slope, Maker::sums})
    for (const bool seen : {false, true})
      for (const Numbers numbers : {Numbers::plain, Numbers::wild})
        for (const bool sum : {false, true}) {
          const std::string what = "maker " + std::to_string(static_cast<int>(maker)) + (seen ? " seen" : "");
          expect_bytes_of_scalar({{1061, 96}, true, true, sum, "mxfp4", maker, seen, numbers}, what);
          expect_bytes_of_scalar({{65, 32}, true, false, sum, "mxfp4", maker, seen, numbers}, what + " last");
        }
}

TEST_F(GpuTiles, every_format_that_they_take_gives_the_bytes_of_scalar) {
  for (const char* spec : {"e2m1:b32:e8m0/ceil:rne", "e2m1:b32:e8m0/even:rne", "e2m1:b16:e8m0/rceil:rne",
                           "e2m1:b32:e8m0/floor:sr32", "e4m3:b32:e8m0/floor:rne", "e5m2:b16:e8m0/floor:rne",
                           "e2m3:b32:e8m0/floor:rne", "e3m2:b32:e8m0/even:rne", "e4m3:b16:e8m0/floor:sr32"})
    for (const Maker maker : {Maker::none, Maker::gelu, Maker::sums}) {
      const std::string format = std::string(spec).substr(0, 4),
                        rounding = std::string(spec).substr(std::string(spec).size() - 4);
      const bool runs = maker == Maker::none || format == "e2m1" || (format == "e4m3" && rounding != "sr32");
      TileCase c{{96, 64}, true, true, true, spec, maker};
      if (!runs) c.steps = 2;
      expect_bytes_of_scalar(c, spec);
    }
}

/// Element-wise nodes whose values are quantized and summed here and there; their memory is used again and again.
Builder random_readers(uint64_t seed) {
  Builder b(seed);
  auto& random = b.random();
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  const int64_t rows = static_cast<int64_t>(1 + below(80)), width = 32 * static_cast<int64_t>(1 + below(2));
  std::vector<ValueId> values = {b.parameter({rows, width}), b.parameter({rows, width})};
  const ValueId bias = b.parameter({width});
  const auto any = [&] { return values[values.size() - 1 - std::min(below(values.size()), below(values.size()))]; };
  for (int i = 0; i < 20; ++i) {
    const ValueId x = any();
    switch (below(5)) {
      case 0: values.push_back(b.node(Op::add, {x, below(2) == 0 ? bias : any()})); break;
      case 1: values.push_back(b.node(Op::mul, {x, any()})); break;
      case 2: values.push_back(b.node(Op::gelu, {x})); break;
      case 3: values.push_back(b.node(Op::gelu_grad, {x, any()})); break;
      default: {
        const char* const spec = below(4) == 0 ? "nvfp4" : "mxfp4";
        std::vector<ValueId> packed;
        for (const char* axis : {"last", "first"})
          if (below(3) != 0) packed.push_back(b.node(Op::quantize, {x}, {{"spec", spec}, {"axis", axis}}));
        if (below(2) == 0) b.graph().results.push_back(b.node(Op::column_sum, {x}, {{"columns", width}}));
        for (const ValueId q : packed) values.push_back(b.node(Op::dequantize, {q}));
      }
    }
  }
  b.graph().results.push_back(values.back());
  return b;
}

TEST_F(GpuPlans, random_readers_of_matrices_give_the_bits_of_scalar) {
  size_t tiles = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Builder b = random_readers(seed);
    for (const std::string& step : b.steps()) tiles += step.starts_with("tiles") ? 1 : 0;
    expect_bits_of_scalar(b, "seed " + std::to_string(seed));
  }
  EXPECT_GT(tiles, 60u) << "hardly anything joins";
}

/// Matrices each of which is quantized along both axes, and maybe summed.
Builder many_matrices(const std::vector<Shape>& shapes, bool sums) {
  Builder b(shapes.size());
  std::vector<ValueId> packed;
  for (const Shape& shape : shapes) {
    const ValueId x = b.parameter(shape);
    if (sums) b.graph().results.push_back(b.node(Op::column_sum, {x}, {{"columns", shape.back()}}));
    for (const char* axis : {"last", "first"})
      packed.push_back(b.node(Op::quantize, {x}, {{"spec", "mxfp4"}, {"axis", axis}}));
  }
  for (const ValueId q : packed) b.graph().results.push_back(b.node(Op::dequantize, {q}));
  return b;
}

const std::vector<Shape> kMany = {{64, 64},   {96, 32},    {33, 128}, {1, 32}, {3, 40, 96},
                                  {700, 256}, {2, 64, 64}, {9, 32},   {8, 32}};

TEST(GpuTilesSchedule, matrices_share_a_launch) {
  EXPECT_EQ(many_matrices(kMany, false).steps()[0], "tiles(quantize, quantize) x 8");
  const std::vector<Shape> three(3, {1100, 64});
  EXPECT_EQ(many_matrices(three, true).steps()[0], "tiles(column_sum, quantize, quantize) x 3");
  EXPECT_EQ(many_matrices({{64, 32}, {64, 64}}, true).steps()[0], "tiles(column_sum, quantize, quantize)");
}

TEST_F(GpuPlans, matrices_of_one_launch_give_the_bits_of_scalar) {
  expect_bits_of_scalar(many_matrices(kMany, false), "shapes");
  for (const size_t count : {2, 3, 9})
    for (const int64_t rows : {40, 1100, 2048})
      expect_bits_of_scalar(many_matrices(std::vector<Shape>(count, {rows, 64}), true), "sums");
}

}  // namespace
}  // namespace fp4sim::test
