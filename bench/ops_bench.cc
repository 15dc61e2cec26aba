// Time of one node of every op: scalar and each simd level, one thread. Shapes are those of a small language model
// (2048 positions, width 512). items_per_second counts elements of the first operand, for `embedding` those of the
// result. Usage: ops_bench [--benchmark_filter=softmax] …
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim {
namespace {

constexpr int64_t kTokens = 2048, kWidth = 512, kClasses = 1024, kHeads = 16, kContext = 256;

/// One node: its operands by type; i32 operands hold values in [0, limit), packed and csr operands what quantize and
/// occ_split make of random values. `name` tells rows of one op apart.
struct Case {
  Op op;
  std::vector<ValueType> inputs;
  Attrs attrs = {};
  int32_t limit = 1;
  std::string name = "";
};

ValueType f32(Shape shape) { return {DType::f32, std::move(shape), {}, Axis::last}; }
ValueType i32(Shape shape) { return {DType::i32, std::move(shape), {}, Axis::last}; }
ValueType packed(Shape shape, const std::string& spec) {
  return {DType::packed, std::move(shape), parse_quant_spec(spec), Axis::last};
}

/// Attributes of quantize and occ_split.
Attrs quantization(const std::string& spec) {
  return {{"spec", spec}, {"axis", "last"}, {"stream", int64_t{7}}, {"row_offset", int64_t{0}}};
}

constexpr const char* kClamped = "e2m1:row:fp32:rne+occ(0.99,e4m3,row)";

/// The ops of §3–§7: quantization, estimators, transforms, products.
void add_quantization(std::vector<Case>& rows) {
  const Shape shape{kTokens, kWidth}, weight{kWidth, kWidth};
  const ValueType x = f32(shape), residual{DType::csr, shape, parse_quant_spec(kClamped), Axis::last};
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32", "mxfp8e4m3", "bf16"}) {
    rows.push_back({Op::quantize, {x}, quantization(spec), 1, spec});
    rows.push_back({Op::dequantize, {packed(shape, spec)}, {}, 1, spec});
  }
  rows.push_back({Op::quantize, {x, step_type()}, quantization("mxfp4:sr32"), 1, "mxfp4:sr32"});
  rows.push_back({Op::estimator_grad, {x, x, packed(shape, "mxfp4")}, {{"estimator", "dge(k=5,clip=3)"}}, 1, "dge"});
  rows.push_back({Op::soft_forward, {x, packed(shape, "mxfp4")}, {{"estimator", "soft(beta=20,forward=soft)"}}, 1, ""});
  rows.push_back({Op::occ_split, {x}, quantization(kClamped)});
  rows.push_back({Op::add_residual, {x, residual}});
  rows.push_back({Op::sparse_matmul, {residual, f32(weight)}, {{"side", "a"}, {"other_axis", "last"}}});
  rows.push_back({Op::hadamard, {x}, {{"n", int64_t{16}}, {"signs", "fixed16"}, {"axis", "last"}}});
  const Attrs axes{{"a_axis", "last"}, {"b_axis", "last"}};
  rows.push_back({Op::matmul, {x, f32(weight)}, axes, 1, "fp32"});
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:row:fp32", "mxfp8e4m3"})
    rows.push_back({Op::matmul, {packed(shape, spec), packed(weight, spec)}, axes, 1, spec});
}

std::vector<Case> cases() {
  const ValueType x = f32({kTokens, kWidth}), row = f32({kWidth}), ids = i32({kTokens});
  const ValueType logits = f32({kTokens, kClasses}), scores = f32({kHeads, kContext, kContext});
  const ValueType heads = f32({kHeads, kContext, 64}), angles = f32({kContext, 32}), flat = f32({kTokens * kWidth});
  const Attrs eps{{"eps", 1e-5}}, softmax{{"scale", 0.125}}, kv{{"repeats", int64_t{4}}, {"groups", int64_t{4}}};
  const Attrs adamw{{"weight_decay", 0.1}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}};
  std::vector<Case> rows{
      {Op::cast, {x}, {{"to", "bf16"}}},
      {Op::embedding, {ids, f32({kClasses, kWidth})}, {}, kClasses},
      {Op::embedding_grad, {ids, x}, {{"rows", kClasses}}, kClasses},
      {Op::add, {x, row}},
      {Op::mul, {x, x}},
      {Op::scale, {x}, {{"factor", 0.5}}},
      {Op::permute, {x}, {{"view", "8,256,8,64"}, {"perm", "0,2,1,3"}, {"shape", "64,256,64"}}},
      {Op::repeat_kv, {heads}, kv},
      {Op::repeat_kv_grad, {heads}, kv},
      {Op::concat, {flat, flat}},
      {Op::silu, {x}},
      {Op::silu_grad, {x, x}},
      {Op::gelu, {x}},
      {Op::gelu_grad, {x, x}},
      {Op::rmsnorm, {x, row}, eps},
      {Op::rmsnorm_grad, {x, x, row}, eps},
      {Op::layernorm, {x, row, row}, eps},
      {Op::layernorm_grad, {x, x, row}, eps},
      {Op::rope, {heads, angles, angles}, {{"style", "interleaved"}}},
      {Op::causal_softmax, {scores}, softmax},
      {Op::causal_softmax_grad, {scores, scores}, softmax},
      {Op::cross_entropy, {logits, ids}, {}, kClasses},
      {Op::cross_entropy_grad, {logits, ids, step_type()}, {{"total_rows", kTokens}}, kClasses},
      {Op::mean, {x}},
      {Op::column_sum, {x}, {{"columns", kWidth}}},
      {Op::norm, {x}},
      {Op::clip, {x, f32({}), step_type()}},
      {Op::adamw, {x, x, x, x, step_type()}, adamw},
  };
  add_quantization(rows);
  return rows;
}

/// A node bound to memory of one backend, with random operands.
class BoundCase {
 public:
  BoundCase(Backend& backend, const Case& c) : backend_(backend) {
    std::vector<ValueId> ids;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const bool kept = c.op == Op::adamw && i < 3;
      ids.push_back(add_value(graph_, c.inputs[i], kept ? ValueKind::parameter : ValueKind::input, std::to_string(i)));
    }
    add_node(graph_, c.op, ids, c.attrs, "node");
    for (const Value& value : graph_.values) {
      owned_.push_back(allocate_tensor(backend, value.type));
      tensors_.push_back(owned_.back().tensor);
    }
    for (size_t i = 0; i < ids.size(); ++i) fill(c, tensors_[static_cast<size_t>(ids[i])], i);
    node_ = bind({graph_, tensors_}, graph_.nodes[0]);
  }
  void run() { backend_.run(node_.call()); }

 private:
  void fill(const Case& c, const Tensor& tensor, size_t salt) {
    std::mt19937 random(static_cast<unsigned>(salt));
    const auto n = static_cast<size_t>(element_count(tensor.type.shape));
    if (tensor.type.dtype == DType::packed || tensor.type.dtype == DType::csr) {
      make(c, tensor, salt);
    } else if (tensor.type == step_type()) {
      StepInfo step;
      step.lr = 1e-3, step.beta1_power = 0.9, step.beta2_power = 0.95, step.clip_norm = 1;
      backend_.upload(tensor.parts[0], &step, sizeof step);
    } else if (tensor.type.dtype == DType::i32) {
      std::vector<int32_t> values(n);
      for (int32_t& v : values) v = static_cast<int32_t>(random() % static_cast<uint32_t>(c.limit));
      backend_.upload(tensor.parts[0], values.data(), tensor.parts[0].bytes);
    } else {
      std::vector<float> values(n);
      for (float& v : values) v = static_cast<float>(random()) * 0x1p-30f - (c.op == Op::adamw && salt == 2 ? 0 : 2.0f);
      backend_.upload(tensor.parts[0], values.data(), tensor.parts[0].bytes);
    }
  }

  /// Runs the op that makes a tensor of this type on random values.
  void make(const Case& c, const Tensor& tensor, size_t salt) {
    const bool quantized = tensor.type.dtype == DType::packed;
    Graph graph;
    const ValueId x = add_value(graph, f32(tensor.type.shape), ValueKind::input, "x");
    add_node(graph, quantized ? Op::quantize : Op::occ_split, {x}, quantization(to_string(tensor.type.spec)), "make");
    std::vector<OwnedTensor> owned;
    std::vector<Tensor> tensors;
    for (const Value& value : graph.values) {
      owned.push_back(allocate_tensor(backend_, value.type));
      tensors.push_back(owned.back().tensor);
    }
    tensors.back() = tensor;
    fill(c, tensors.front(), salt);
    backend_.run(bind({graph, tensors}, graph.nodes[0]).call());
  }

  Backend& backend_;
  Graph graph_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> tensors_;
  BoundNode node_;
};

void time_node(benchmark::State& state, const std::shared_ptr<Backend>& backend, const Case& c) {
  BoundCase bound(*backend, c);
  bound.run();
  for (auto _ : state) bound.run();
  const int64_t elements = c.op == Op::embedding ? kTokens * kWidth : element_count(c.inputs[0].shape);
  state.SetItemsProcessed(state.iterations() * elements);
}

}  // namespace
}  // namespace fp4sim

int main(int argc, char** argv) {
  using namespace fp4sim;
  std::vector<std::shared_ptr<Backend>> backends{scalar::make_backend()};
  for (const simd::Level level : simd::available_levels()) backends.push_back(simd::make_backend(level, 1));
  for (const Case& c : cases()) {
    for (const auto& backend : backends)
      benchmark::RegisterBenchmark(
          (std::string(op_name(c.op)) + "/" + c.name + (c.name.empty() ? "" : "/") + backend->name()).c_str(),
          [backend, c](benchmark::State& state) { time_node(state, backend, c); })
          ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
