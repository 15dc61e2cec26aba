// Time of one node on the cuda backend: every op at the shapes of a training run (tokens 16384, width 384 and 1536) and
// large quantizations and products. Each row is a captured graph of several nodes on buffers of their own, so that
// launches and caches do not flatter; the figure is the median of several runs. GB/s counts the bytes of all operands
// once. `of copy` is the share of the faster of two copies, the driver's and a kernel's with 16-byte accesses, that the
// bytes really moved reach: quantizations that must know all of x before its codes read it twice. `wide`: values of a
// block times a power of two from 2^-12 to 2^12, so that sums of blocks need more than 24 bits.
// Usage: gpu_bench [TEXT…]   only rows whose name contains one of the texts
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "reference/contract/error.h"

namespace fp4sim {
namespace {

constexpr int kBuffers = 4, kRuns = 9, kMaxLaunches = 32;  // launches of the graph in one timing
constexpr double kRowSeconds = 0.3, kRunSeconds = 2e-3;    // what the timings of a row may take, what one should take
constexpr int64_t kFreshWords = 1 << 20;                   // random words of a tensor; then they repeat
constexpr int64_t kLarge = int64_t{1} << 29;               // bytes of an input that no cache holds: one set of buffers
constexpr int64_t kTokens = 16384, kWidth = 384, kHidden = 1536, kContext = 256, kMatrices = 384, kHeadWidth = 64;

/// An operand: a plain type with random elements, or one made from random f32 elements by quantize or occ_split.
struct Operand {
  enum class Kind { plain, quantized, residual } kind;
  ValueType type;
  int32_t limit = 0;  // i32: elements in [0, limit)
  bool wide = false;
};

struct Row {
  std::string name;
  Op op;
  std::vector<Operand> inputs;
  Attrs attrs = {};
  double operations = 0;     // multiplications and additions of a product
  bool reads_twice = false;  // its first input
};

Operand f32(Shape shape) { return {Operand::Kind::plain, {DType::f32, std::move(shape), {}, Axis::last}}; }
Operand i32(Shape shape, int32_t limit) {
  return {Operand::Kind::plain, {DType::i32, std::move(shape), {}, Axis::last}, limit};
}
Operand step() { return {Operand::Kind::plain, step_type()}; }
Operand packed(Shape shape, const std::string& spec, Axis axis = Axis::last, bool wide = false) {
  return {Operand::Kind::quantized, {DType::packed, std::move(shape), parse_quant_spec(spec), axis}, 0, wide};
}
Operand residual(Shape shape, const std::string& spec) {
  return {Operand::Kind::residual, {DType::csr, std::move(shape), parse_quant_spec(spec), Axis::last}};
}

Attrs quantize_attrs(const std::string& spec, Axis axis) {
  return {{"spec", spec}, {"axis", to_string(axis)}, {"stream", int64_t{7}}, {"row_offset", int64_t{0}}};
}

void add_quantization(std::vector<Row>& rows, const std::string& spec, Axis axis, const Shape& shape) {
  const QuantSpec parsed = parse_quant_spec(spec);
  Row row{fmt::format("quantize {} {} {}", spec, to_string(axis), to_string(shape)),
          Op::quantize,
          {f32(shape)},
          quantize_attrs(spec, axis)};
  if (is_stochastic(parsed.rounding)) row.inputs.push_back(step());
  row.reads_twice = parsed.granularity == Granularity::tensor || has_tensor_scale(parsed) ||
                    (parsed.granularity == Granularity::row && axis == Axis::first);
  rows.push_back(row);
}

void add_quantizations(std::vector<Row>& rows) {
  const Shape large{16384, 16384}, activation{kTokens, kWidth}, hidden{kTokens, kHidden};
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32", "mxfp6e2m3", "mxfp8e4m3", "e2m1:b32:e8m0/floor:sr32"})
    for (const Axis axis : {Axis::last, Axis::first})
      for (const Shape& shape : {large, activation}) add_quantization(rows, spec, axis, shape);
  for (const char* spec : {"e5m2:tensor:fp32/pow2", "e4m3:tensor:fp32/pow2"})
    for (const Axis axis : {Axis::last, Axis::first})
      for (const Shape& shape : {activation, hidden}) add_quantization(rows, spec, axis, shape);
  for (const char* spec : {"bf16:none", "fp16:none"})
    rows.push_back({fmt::format("quantize {}", spec), Op::quantize, {f32(large)}, quantize_attrs(spec, Axis::last)});
  for (const char* spec : {"mxfp4", "nvfp4", "bf16:none"})
    rows.push_back({fmt::format("dequantize {}", spec), Op::dequantize, {packed({8192, 8192}, spec)}});
  rows.push_back({"estimator_grad dge mxfp4",
                  Op::estimator_grad,
                  {f32(activation), f32(activation), packed(activation, "mxfp4")},
                  {{"estimator", "dge(k=5,clip=3)"}}});
  rows.push_back({"occ_split",
                  Op::occ_split,
                  {f32(activation)},
                  {{"spec", "e2m1:row:fp32:rne+occ(0.99,fp32,row)"}, {"axis", "last"}}});
  rows.push_back(
      {"hadamard 16", Op::hadamard, {f32(activation)}, {{"axis", "last"}, {"n", int64_t{16}}, {"signs", "none"}}});
}

struct ProductSize {
  int64_t m, n, k;
  Axis a_axis = Axis::last, b_axis = Axis::last;  // of k
};
constexpr ProductSize kSquare{8192, 8192, 8192}, kHalfSquare{4096, 4096, 4096};
/// y, dx and dw of the layers between width and hidden width.
constexpr ProductSize kTraining[] = {
    {kTokens, kHidden, kWidth}, {kTokens, kWidth, kHidden}, {kHidden, kWidth, kTokens, Axis::first, Axis::first}};

void add_product(std::vector<Row>& rows, const std::string& a, const std::string& b, const ProductSize& s,
                 bool wide = false) {
  const auto operand = [&](const std::string& spec, int64_t n, Axis axis) {
    const Shape shape = axis == Axis::last ? Shape{n, s.k} : Shape{s.k, n};
    return spec == "f32" ? f32(shape) : packed(shape, spec, axis, wide);
  };
  rows.push_back({fmt::format("matmul {}{} {}x{}x{} {}", a == b ? a : a + "," + b, wide ? " wide" : "", s.m, s.n, s.k,
                              s.a_axis == s.b_axis ? to_string(s.a_axis) : "mixed"),
                  Op::matmul,
                  {operand(a, s.m, s.a_axis), operand(b, s.n, s.b_axis)},
                  {{"a_axis", to_string(s.a_axis)}, {"b_axis", to_string(s.b_axis)}},
                  2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k)});
}

/// Scores, their product with v, and the gradients of both factors, of operands in binary32 or a packed format.
void add_attention(std::vector<Row>& rows, const std::string& spec) {
  const Shape head{kMatrices, kContext, kHeadWidth}, scores{kMatrices, kContext, kContext};
  const struct {
    const char* name;
    Shape a, b;
    Axis a_axis, b_axis;
  } products[] = {{"q.k", head, head, Axis::last, Axis::last},
                  {"p.v", scores, head, Axis::last, Axis::first},
                  {"pT.dy", scores, head, Axis::first, Axis::first}};
  for (const auto& p : products) {
    const auto operand = [&](const Shape& shape, Axis axis) {
      return spec == "f32" ? f32(shape) : packed(shape, spec, axis);
    };
    rows.push_back({fmt::format("matmul {} {}", spec, p.name),
                    Op::matmul,
                    {operand(p.a, p.a_axis), operand(p.b, p.b_axis)},
                    {{"a_axis", to_string(p.a_axis)}, {"b_axis", to_string(p.b_axis)}},
                    2.0 * kMatrices * kContext * kContext * kHeadWidth});
  }
}

void add_products(std::vector<Row>& rows) {
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32"}) {
    add_product(rows, spec, spec, kSquare);
    add_product(rows, spec, spec, kHalfSquare);
    for (const ProductSize& size : kTraining) add_product(rows, spec, spec, size);
  }
  add_product(rows, "mxfp4", "mxfp4", kSquare, true);
  add_product(rows, "mxfp4", "mxfp4", kTraining[0], true);
  for (const char* spec : {"e4m3:row:fp32", "f32", "bf16:none"}) {
    add_product(rows, spec, spec, kHalfSquare);
    for (const ProductSize& size : kTraining) add_product(rows, spec, spec, size);
  }
  for (const char* spec : {"e4m3:row:fp32", "f32"}) add_product(rows, spec, spec, kSquare);
  // dx and dw of fp4-dge-occ
  const std::string dy = "e5m2:tensor:fp32/pow2", forward = "e4m3:tensor:fp32/pow2";
  add_product(rows, dy, forward, {kTokens, kWidth, kHidden, Axis::last, Axis::first});
  add_product(rows, dy, forward, {kTokens, kHidden, kWidth, Axis::last, Axis::first});
  add_product(rows, dy, forward, kTraining[2]);
  for (const char* spec : {"f32", "bf16:none"}) add_attention(rows, spec);
  const std::string occ = "e2m1:row:fp32:rne+occ(0.99,fp32,row)";
  rows.push_back({"sparse_matmul",
                  Op::sparse_matmul,
                  {residual({kTokens, kWidth}, occ), f32({kHidden, kWidth})},
                  {{"side", "a"}, {"other_axis", "last"}}});
}

void add_others(std::vector<Row>& rows) {
  const Operand x = f32({kTokens, kWidth}), wide = f32({kTokens, kHidden}), gain = f32({kWidth});
  const Operand scores = f32({kMatrices, kContext, kContext}), flat = f32({kHidden * kWidth});
  const Operand ids = i32({kTokens}, 256), logits = f32({kTokens, 256});
  const Operand heads = f32({kMatrices, kContext, kHeadWidth}), angles = f32({kContext, kHeadWidth / 2});
  const Attrs eps{{"eps", 1e-5}}, softmax{{"scale", 0.125}};
  const Attrs adamw{{"weight_decay", 0.1}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}};
  const std::vector<Row> more = {
      {"cast to bf16", Op::cast, {wide}, {{"to", "bf16"}}},
      {"embedding", Op::embedding, {ids, f32({256, kWidth})}},
      {"embedding_grad", Op::embedding_grad, {ids, x}, {{"rows", int64_t{256}}}},
      {"add", Op::add, {x, x}},
      {"add bias", Op::add, {wide, f32({kHidden})}},
      {"permute", Op::permute, {x}, {{"view", "64,256,6,64"}, {"perm", "0,2,1,3"}, {"shape", "384,256,64"}}},
      {"gelu", Op::gelu, {wide}},
      {"gelu_grad", Op::gelu_grad, {wide, wide}},
      {"silu", Op::silu, {wide}},
      {"layernorm", Op::layernorm, {x, gain, gain}, eps},
      {"layernorm_grad", Op::layernorm_grad, {x, x, gain}, eps},
      {"rmsnorm", Op::rmsnorm, {x, gain}, eps},
      {"rmsnorm_grad", Op::rmsnorm_grad, {x, x, gain}, eps},
      {"rope", Op::rope, {heads, angles, angles}, {{"style", "interleaved"}}},
      {"causal_softmax", Op::causal_softmax, {scores}, softmax},
      {"causal_softmax_grad", Op::causal_softmax_grad, {scores, scores}, softmax},
      {"cross_entropy", Op::cross_entropy, {logits, ids}},
      {"cross_entropy_grad", Op::cross_entropy_grad, {logits, ids, step()}, {{"total_rows", kTokens}}},
      {"mean", Op::mean, {f32({kTokens})}},
      {"column_sum", Op::column_sum, {wide}, {{"columns", kHidden}}},
      {"norm", Op::norm, std::vector<Operand>(70, flat)},
      {"clip", Op::clip, {flat, f32({}), step()}},
      {"adamw", Op::adamw, {flat, flat, flat, flat, step()}, adamw},
  };
  rows.insert(rows.end(), more.begin(), more.end());
}

/// Fills a plain tensor: f32 roughly normal, i32 below the limit, a step in which AdamW moves.
void fill(Backend& backend, const Tensor& tensor, const Operand& operand, std::mt19937& random) {
  const int64_t n = element_count(tensor.type.shape);
  if (tensor.type.dtype == DType::u8) {
    const StepInfo info{.seed = 1, .step = 2, .lr = 1e-3, .beta1_power = 0.9, .beta2_power = 0.95, .clip_norm = 1};
    return backend.upload(tensor.parts[0], &info, sizeof info);
  }
  std::vector<uint32_t> bits(static_cast<size_t>(n));
  const auto fresh = static_cast<size_t>(std::min(n, kFreshWords));
  float factor = 1;
  for (size_t i = 0; i < fresh; ++i) {
    uint32_t& word = bits[i];
    const uint32_t r = static_cast<uint32_t>(random());
    if (operand.wide && i % 32 == 0) factor = std::ldexp(1.0f, static_cast<int>(r >> 7 & 0xFFFF) % 25 - 12);
    if (operand.limit > 0) {
      word = r % static_cast<uint32_t>(operand.limit);
    } else {
      const float sum = static_cast<float>((r & 255u) + (r >> 8 & 255u) + (r >> 16 & 255u) + (r >> 24)) - 510.0f;
      const float value = (sum * 0.0068f + static_cast<float>(r & 1023u) * 1e-5f) * factor;
      std::memcpy(&word, &value, sizeof word);
    }
  }
  for (size_t i = fresh; i < bits.size(); ++i) bits[i] = bits[i - fresh];
  backend.upload(tensor.parts[0], bits.data(), 4 * n);
}

/// Operands by type and number, made once for all rows: filling them takes longer than timing a node.
class Operands {
 public:
  explicit Operands(Backend& backend) : backend_(backend) {}

  Tensor get(const Operand& operand, int number) {
    const std::string key = fmt::format("{} {} {} {} {}", static_cast<int>(operand.kind), to_string(operand.type),
                                        operand.limit, operand.wide, number);
    const auto found = made_.find(key);
    if (found != made_.end()) return found->second.tensor;
    return made_.emplace(key, make(operand)).first->second.tensor;
  }

 private:
  /// Operands that an op makes are made here.
  OwnedTensor make(const Operand& operand) {
    if (operand.kind == Operand::Kind::plain) {
      OwnedTensor owned = allocate_tensor(backend_, operand.type);
      fill(backend_, owned.tensor, operand, random_);
      return owned;
    }
    const ValueType source{DType::f32, operand.type.shape, {}, Axis::last};
    const OwnedTensor x = allocate_tensor(backend_, source);
    fill(backend_, x.tensor, operand, random_);
    OwnedTensor owned = allocate_tensor(backend_, operand.type);
    const OwnedTensor clamped = allocate_tensor(backend_, source);
    const std::string spec = to_string(operand.type.spec);
    const bool sparse = operand.kind == Operand::Kind::residual;
    const Node node =
        sparse ? Node{Op::occ_split, {0}, {1, 2}, {{"spec", spec}, {"axis", to_string(operand.type.axis)}}, ""}
               : Node{Op::quantize, {0}, {1}, quantize_attrs(spec, operand.type.axis), ""};
    const std::vector<Tensor> in{x.tensor},
        out = sparse ? std::vector<Tensor>{clamped.tensor, owned.tensor} : std::vector<Tensor>{owned.tensor};
    backend_.run({node, in, out});
    backend_.synchronize();
    return owned;
  }

  Backend& backend_;
  std::mt19937 random_{1};
  std::map<std::string, OwnedTensor> made_;
};

int64_t part_bytes(const ValueType& type) {
  int64_t bytes = 0;
  for (const PartLayout& part : part_layouts(type)) bytes += part.bytes;
  return bytes;
}

/// Median seconds of one node, the bytes of its operands and those it moves.
struct Timing {
  double seconds;
  int64_t bytes, moved;
  double rate() const { return static_cast<double>(bytes) / seconds; }
};

/// Seconds until `launches` launches of the program are done.
double seconds_of(Backend& backend, Program& program, int launches) {
  const auto begin = std::chrono::steady_clock::now();
  for (int launch = 0; launch < launches; ++launch) program.run();
  backend.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Timing time_row(Backend& backend, Operands& operands, const Row& row) {
  Graph graph;
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> tensors;
  int64_t bytes = 0;
  const int buffers = part_bytes(row.inputs[0].type) < kLarge ? kBuffers : 1;
  for (int copy = 0; copy < buffers; ++copy) {
    std::vector<ValueId> ids;
    for (const Operand& operand : row.inputs) {
      ids.push_back(static_cast<ValueId>(graph.values.size()));
      graph.values.push_back({operand.type, ValueKind::parameter, {}});
      tensors.push_back(
          operands.get(operand, copy * static_cast<int>(row.inputs.size()) + static_cast<int>(ids.size())));
      if (copy == 0) bytes += part_bytes(operand.type);
    }
    for (const ValueId id : add_node(graph, row.op, ids, row.attrs, row.name)) {
      if (copy == 0) bytes += part_bytes(graph.type(id));
      if (static_cast<size_t>(id) < tensors.size()) continue;  // adamw's own
      owned.push_back(allocate_tensor(backend, graph.type(id)));
      tensors.push_back(owned.back().tensor);
    }
  }
  const auto program = backend.compile({graph, tensors});
  seconds_of(backend, *program, 1);
  const double once = seconds_of(backend, *program, 1);
  const int launches = std::clamp(static_cast<int>(kRunSeconds / once) + 1, 1, kMaxLaunches);
  const int runs = std::clamp(static_cast<int>(kRowSeconds / (once * launches)) | 1, 3, kRuns);
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run)
    seconds.push_back(seconds_of(backend, *program, launches) / (buffers * launches));
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return {seconds[static_cast<size_t>(runs / 2)], bytes,
          bytes + (row.reads_twice ? part_bytes(row.inputs[0].type) : 0)};
}

void print_row(const Row& row, const Timing& t, double copy) {
  fmt::print("{:<72}{:>12.2f}{:>10.0f}{:>10.2f}{:>12}\n", row.name, t.seconds * 1e6, t.rate() * 1e-9,
             static_cast<double>(t.moved) / t.seconds / copy,
             row.operations > 0 ? fmt::format("{:.1f}", row.operations / t.seconds * 1e-12) : "");
  std::fflush(stdout);
}

/// Bytes a second of the faster copy, read and written bytes together.
double print_copies(Backend& backend, Operands& operands) {
  const Operand x = f32({kLarge / 4});
  const Row rows[] = {{"copy of the driver", Op::concat, {x}}, {"copy of a kernel", Op::scale, {x}, {{"factor", 1.0}}}};
  Timing timings[2];
  for (int i = 0; i < 2; ++i) timings[i] = time_row(backend, operands, rows[i]);
  const double best = std::max(timings[0].rate(), timings[1].rate());
  for (int i = 0; i < 2; ++i) print_row(rows[i], timings[i], best);
  return best;
}

bool wanted(const Row& row, const std::vector<std::string>& texts) {
  return texts.empty() || std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
           return row.name.find(text) != std::string::npos;
         });
}

int run(const std::vector<std::string>& texts) {
  const auto backend = gpu::make_backend();
  const gpu::DeviceInfo device = gpu::devices().front();
  fmt::print("{}, driver for CUDA {}\n{:<72}{:>12}{:>10}{:>10}{:>12}\n", device.name, device.driver, "node", "us",
             "GB/s", "of copy", "TFLOP/s");
  Operands operands(*backend);
  const double copy = print_copies(*backend, operands);
  std::vector<Row> rows;
  add_quantizations(rows);
  add_products(rows);
  add_others(rows);
  for (const Row& row : rows)
    if (wanted(row, texts)) print_row(row, time_row(*backend, operands, row), copy);
  return 0;
}

}  // namespace
}  // namespace fp4sim

int main(int argc, char** argv) {
  try {
    return fp4sim::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_bench: {}\n", e.what());
    return 1;
  }
}
