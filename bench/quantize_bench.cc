// Rates of quantization for a binary32 array larger than the last cache: elements a second, and two ratios to memcpy of
// that array by as many threads, which alternates with the row's runs: of_memcpy in elements, bytes_of_memcpy in bytes
// read and written (memcpy: 8 an element; mxfp4: 4 + 0.5 + 1/32). Both are ratios of least times: the processor time of
// the one thread, or the time that passed with two. Usage: quantize_bench [--benchmark_filter=quantize/mxfp4/last] …
#include <benchmark/benchmark.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/backend.h"

namespace fp4sim {
namespace {

constexpr int64_t kCols = 1024;

/// Rows of the array: 64 MB, or more than the last cache as far as the system tells its size.
int64_t rows_of_array() {
  constexpr int64_t kLeast = 16384, kRowBytes = kCols * 4;
  return std::max<int64_t>(kLeast, sysconf(_SC_LEVEL3_CACHE_SIZE) / kRowBytes * 5 / 4);
}
const int64_t kRows = rows_of_array();

std::vector<float> make_bell_values() {
  std::vector<float> x(static_cast<size_t>(kRows * kCols));
  uint32_t state = 1;
  for (float& v : x) {
    float sum = -2.0f;
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525u + 1013904223u;
      sum += static_cast<float>(state >> 8) * 0x1p-24f;
    }
    v = sum;
  }
  return x;
}

const std::vector<float>& bell_values() {
  static const std::vector<float> values = make_bell_values();
  return values;
}

/// Seconds on the clock that counts work of `threads`: what others do with the core does not count for one thread.
double seconds_now(int threads) {
  timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds of one copy of the array, a share for each thread, the same memory every time.
double memcpy_seconds(const float* from, int threads) {
  static std::vector<float> to(static_cast<size_t>(kRows * kCols));
  const double begin = seconds_now(threads);
  const size_t share = to.size() / static_cast<size_t>(threads);  // kRows and kCols are even
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int t = 0; t < threads; ++t) {
    const size_t first = static_cast<size_t>(t) * share;
    std::memcpy(to.data() + first, from + first, share * sizeof(float));
  }
  benchmark::DoNotOptimize(to.data());
  return seconds_now(threads) - begin;
}

/// A chain of nodes; the last one is measured, those before it make its inputs.
struct Measured {
  Graph graph;
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> tensors;
};

Measured prepare(Backend& backend, const std::string& op, const std::string& spec, const std::string& axis) {
  Measured m;
  const ValueId x = add_value(m.graph, {DType::f32, {kRows, kCols}, {}, Axis::last}, ValueKind::input, "x");
  const ValueId step = add_value(m.graph, step_type(), ValueKind::input, "step");
  const Attrs attrs{{"spec", spec}, {"axis", axis}, {"stream", int64_t{7}}, {"row_offset", int64_t{0}}};
  const QuantSpec parsed = parse_quant_spec(spec);
  if (op == "occ_split") {
    add_node(m.graph, Op::occ_split, {x}, attrs, "split");
  } else if (op == "hadamard") {
    add_node(m.graph, Op::hadamard, {x}, {{"n", int64_t{parsed.hadamard.n}}, {"signs", "fixed16"}, {"axis", axis}}, "");
  } else {
    const bool stochastic = is_stochastic(parsed.rounding);
    const std::vector<ValueId> inputs = stochastic ? std::vector<ValueId>{x, step} : std::vector<ValueId>{x};
    const ValueId q = add_node(m.graph, Op::quantize, inputs, attrs, "quantize")[0];
    if (op == "dequantize") add_node(m.graph, Op::dequantize, {q}, {}, "dequantize");
    if (op.find("grad:") == 0)
      add_node(m.graph, Op::estimator_grad, {x, x, q}, {{"estimator", op.substr(5)}}, "gradient");
  }
  for (const Value& value : m.graph.values) {
    m.owned.push_back(allocate_tensor(backend, value.type));
    m.tensors.push_back(m.owned.back().tensor);
  }
  const std::vector<float>& values = bell_values();
  backend.upload(m.tensors[0].parts[0], values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  const StepInfo info;
  backend.upload(m.tensors[1].parts[0], &info, sizeof info);
  return m;
}

/// Bytes of a node's inputs and outputs.
int64_t bytes_of(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (const auto* values : {&node.inputs, &node.outputs})
    for (const ValueId id : *values)
      for (const PartLayout& part : part_layouts(graph.values[static_cast<size_t>(id)].type)) bytes += part.bytes;
  return bytes;
}

void run(benchmark::State& state, simd::Level level, const std::string& op, const std::string& spec,
         const std::string& axis, int threads) {
  const auto backend = simd::make_backend(level, threads);
  const Measured m = prepare(*backend, op, spec, axis);
  const Plan plan{m.graph, m.tensors};
  for (const Node& node : m.graph.nodes) backend->run(bind(plan, node).call());
  const BoundNode last = bind(plan, m.graph.nodes.back());
  const auto* x = reinterpret_cast<const float*>(host_data(m.tensors[0].parts[0]));
  double copy = memcpy_seconds(x, threads), row = 1e9;
  for (auto _ : state) {
    const double begin = seconds_now(threads);
    backend->run(last.call());
    const double seconds = seconds_now(threads) - begin;
    state.SetIterationTime(seconds);
    row = std::min(row, seconds), copy = std::min(copy, memcpy_seconds(x, threads));
  }
  constexpr double kGiga = 1e-9;
  const auto elements = static_cast<double>(kRows * kCols);
  const auto bytes = static_cast<double>(bytes_of(m.graph, m.graph.nodes.back()));
  state.counters["Gelements/s"] = elements * kGiga / row;
  state.counters["memcpy_GB/s"] = 8 * elements * kGiga / copy;
  state.counters["of_memcpy"] = copy / row;
  state.counters["bytes_of_memcpy"] = (bytes / row) / (8 * elements / copy);
}

struct Row {
  const char *op, *spec;
};
constexpr Row kRowsOfTable[] = {
    {"quantize", "mxfp4"},
    {"quantize", "nvfp4"},
    {"quantize", "e2m1:row:fp32:rne"},
    {"quantize", "mxfp4:sr32"},
    {"quantize", "mxint8"},
    {"quantize", "e2m1:2d16:e4m3/te:rne"},
    {"quantize", "e2m1:b32:e8m0/opt:rne"},
    {"quantize", "e2m1:b16:e4m3/4over6(mse):rne"},
    {"quantize", "e2m1:b16:e4m3/exact:rne"},
    {"quantize", "mxfp4:sr8+sr34"},
    {"quantize", "mxfp8e4m3"},
    {"quantize", "mxfp6e2m3"},
    {"quantize", "bf16"},
    {"dequantize", "mxfp4"},
    {"dequantize", "nvfp4"},
    {"dequantize", "e2m1:row:fp32:rne"},
    {"dequantize", "mxfp8e4m3"},
    {"grad:dge(5,3)", "e2m1:row:fp32:rne"},
    {"grad:ste_clip", "mxfp4"},
    {"grad:soft(20)", "mxfp4"},
    {"occ_split", "mxfp4+occ(0.99,fp32)"},
    {"occ_split", "mxfp4+occ(0.97,e4m3)"},
    {"hadamard", "mxfp4+had(16,fixed16)"},
    {"hadamard", "mxfp4+had(128,fixed16)"},
};

}  // namespace
}  // namespace fp4sim

int main(int argc, char** argv) {
  using namespace fp4sim;
  for (const simd::Level level : simd::available_levels())
    for (const Row& row : kRowsOfTable)
      for (const char* axis : {"last", "first"})
        for (const int threads : {1, 2}) {
          const std::string name = std::string(row.op) + "/" + row.spec + "/" + axis + "/" + simd::to_string(level) +
                                   (threads == 1 ? "" : "/two_threads");
          benchmark::RegisterBenchmark(
              name.c_str(), [=](benchmark::State& state) { run(state, level, row.op, row.spec, axis, threads); })
              ->Unit(benchmark::kMillisecond)
              ->UseManualTime();
        }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
