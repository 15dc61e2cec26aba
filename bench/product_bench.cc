// Products beside OpenBLAS sgemm (where CMake found it) at 1024³, 4096³ and at the shapes of a small training step.
// Columns: gflops, and of_sgemm = time of sgemm / time of the row (above 1: faster than sgemm on as many threads), the
// best of runs that alternate: processor time of the process with one thread, so that other programs on the machine
// count for neither; else wall-clock time.
// Names: spec/shape/axes/level/threads. Where the machine sets OPENBLAS_CORETYPE, compare without it:
//   env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE product_bench --benchmark_filter=avx512vnni/threads:1
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#ifdef FP4SIM_HAVE_OPENBLAS
#include <cblas.h>
#endif

#include "reference/simd/backend.h"

namespace fp4sim {
namespace {

struct ProductShape {
  int64_t matrices, m, n, k;
  Axis a_axis, b_axis;
  const char* use;
};

constexpr ProductShape kShapes[] = {
    {1, 1024, 1024, 1024, Axis::last, Axis::last, "square"},
    {1, 4096, 4096, 4096, Axis::last, Axis::last, "large_square"},
    {1, 768, 128, 128, Axis::last, Axis::last, "attention_projection"},
    {1, 768, 512, 128, Axis::last, Axis::last, "ffn_up"},
    {1, 768, 128, 512, Axis::last, Axis::last, "ffn_down"},
    {1, 768, 128, 512, Axis::last, Axis::first, "ffn_up_dgrad"},
    {1, 512, 128, 768, Axis::first, Axis::first, "ffn_up_wgrad"},
    {1, 128, 512, 768, Axis::first, Axis::first, "ffn_down_wgrad"},
    {48, 64, 64, 32, Axis::last, Axis::last, "attention_scores"},
    {48, 64, 32, 64, Axis::last, Axis::first, "attention_values"},
    {48, 64, 32, 64, Axis::first, Axis::first, "attention_values_grad"},
};
constexpr const char* kOperands[] = {"fp32",          "mxfp4",         "nvfp4",         "e2m1:row:fp32",
                                     "e2m3:b32:e8m0", "e3m2:b32:e8m0", "e4m3:b32:e8m0", "e4m3:tensor:fp32"};

double seconds_now(int threads) {
  if (threads > 1) return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Shape shape_of(const ProductShape& s, int64_t vectors, Axis axis) {
  Shape shape = axis == Axis::last ? Shape{vectors, s.k} : Shape{s.k, vectors};
  if (s.matrices > 1) shape.insert(shape.begin(), s.matrices);
  return shape;
}

ValueType operand_type(const std::string& operand, Shape shape, Axis axis) {
  if (operand == "fp32") return {DType::f32, std::move(shape), {}, Axis::last};
  return {DType::packed, std::move(shape), parse_quant_spec(operand), axis};
}

/// Numbers in [−1, 1), finite codes, scales near 1.
OwnedTensor filled_tensor(Backend& backend, const ValueType& type) {
  OwnedTensor owned = allocate_tensor(backend, type);
  std::mt19937 random(1);
  const std::vector<PartLayout> parts = part_layouts(type);
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t bytes = parts[p].bytes;
    if (parts[p].dtype == DType::f32) {
      std::vector<float> x(static_cast<size_t>(bytes / 4));
      for (float& v : x) v = static_cast<float>(random()) * 0x1p-31f - (type.dtype == DType::f32 ? 1.0f : 0.0f);
      backend.upload(owned.tensor.parts[p], x.data(), bytes);
    } else {
      std::vector<uint8_t> x(static_cast<size_t>(bytes));
      const bool scales = p == 1;
      for (uint8_t& v : x) {
        const auto r = static_cast<uint32_t>(random());
        if (scales)
          v = static_cast<uint8_t>((type.spec.scale == ScaleFormat::e8m0 ? 120 : 0x30) + r % 12);
        else
          v = static_cast<uint8_t>(type.spec.element == kE4m3 ? r & 0xF7u : r);
      }
      backend.upload(owned.tensor.parts[p], x.data(), bytes);
    }
  }
  return owned;
}

#ifdef FP4SIM_HAVE_OPENBLAS
/// sgemm of a shape on operands of its own.
class Sgemm {
 public:
  Sgemm(const ProductShape& s, int threads)
      : s_(s),
        a_(static_cast<size_t>(s.matrices * s.m * s.k), 0.5f),
        b_(static_cast<size_t>(s.matrices * s.n * s.k), 0.25f),
        y_(static_cast<size_t>(s.matrices * s.m * s.n)) {
    openblas_set_num_threads(threads);
  }
  void run() {
    const auto blas_int = [](int64_t x) { return static_cast<int>(x); };
    const bool a_first = s_.a_axis == Axis::first, b_first = s_.b_axis == Axis::first;
    for (int64_t i = 0; i < s_.matrices; ++i)
      cblas_sgemm(CblasRowMajor, a_first ? CblasTrans : CblasNoTrans, b_first ? CblasNoTrans : CblasTrans,
                  blas_int(s_.m), blas_int(s_.n), blas_int(s_.k), 1.0f, a_.data() + i * s_.m * s_.k,
                  blas_int(a_first ? s_.m : s_.k), b_.data() + i * s_.n * s_.k, blas_int(b_first ? s_.n : s_.k), 0.0f,
                  y_.data() + i * s_.m * s_.n, blas_int(s_.n));
  }

 private:
  const ProductShape& s_;
  std::vector<float> a_, b_, y_;
};
#endif

/// Seconds of one call of f.
template <class F>
double seconds_of(int threads, F f) {
  const double start = seconds_now(threads);
  f();
  return seconds_now(threads) - start;
}

void product(benchmark::State& state, const ProductShape& s, const std::string& operand, simd::Level level,
             int threads) {
  const auto backend = simd::make_backend(level, threads);
  const ValueType a_type = operand_type(operand, shape_of(s, s.m, s.a_axis), s.a_axis);
  const ValueType b_type = operand_type(operand, shape_of(s, s.n, s.b_axis), s.b_axis);
  const OwnedTensor a = filled_tensor(*backend, a_type), b = filled_tensor(*backend, b_type);
  const Node node{Op::matmul,
                  {0, 1},
                  {2},
                  {{"a_axis", std::string(to_string(s.a_axis))}, {"b_axis", std::string(to_string(s.b_axis))}},
                  "bench"};
  const OwnedTensor y = allocate_tensor(*backend, infer_types(Op::matmul, {a_type, b_type}, node.attrs)[0]);
  const Tensor in[] = {a.tensor, b.tensor}, out[] = {y.tensor};

  // The best single times: the mean of a short run on a shared machine says little about either.
  double best = 1e9;
#ifdef FP4SIM_HAVE_OPENBLAS
  double best_sgemm = 1e9;
  Sgemm sgemm(s, threads);
#endif
  for (auto _ : state) {
    const double seconds = seconds_of(threads, [&] { backend->run({node, in, out}); });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
#ifdef FP4SIM_HAVE_OPENBLAS
    best_sgemm = std::min(best_sgemm, seconds_of(threads, [&] { sgemm.run(); }));
#endif
  }
  const double flops = 2.0 * static_cast<double>(s.matrices * s.m * s.n * s.k);
  state.counters["gflops"] = flops / best * 1e-9;
#ifdef FP4SIM_HAVE_OPENBLAS
  state.counters["of_sgemm"] = best_sgemm / best;
#endif
}

void register_products() {
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (const ProductShape& s : kShapes)
    for (const char* operand : kOperands)
      for (const simd::Level level : simd::available_levels())
        for (const int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) {
          const std::string name = std::string(operand) + "/" + s.use + "/" + std::to_string(s.m) + "x" +
                                   std::to_string(s.n) + "x" + std::to_string(s.k) + "/" + simd::to_string(level) +
                                   "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(), product, s, std::string(operand), level, threads)
              ->UseManualTime()
              ->MinTime(0.2)
              ->Unit(benchmark::kMicrosecond);
        }
}

}  // namespace
}  // namespace fp4sim

int main(int argc, char** argv) {
  fp4sim::register_products();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
