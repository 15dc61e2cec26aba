// Products of packed operands alone: their operands are expanded before the clock starts. 8192 × 8192 × 8192,
// several pairs of operands in turn; median of several runs. Prints rows like gpu_bench's.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/matmul_digits.h"
#include "gpu/matmul_halves.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/operand.h"
#include "reference/contract/element_format.h"
#include "reference/contract/error.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::gpu {
namespace {

constexpr int64_t kSize = 8192;
constexpr int kPairs = 4, kRuns = 9;
constexpr ProductShape kShape{1, kSize, kSize, kSize};

/// A context with an arena of its own: what it hands out stays until its next begin.
class Arena {
 public:
  Arena(cudaStream_t stream, int multiprocessors) : context_(stream, multiprocessors, 256, false) {}
  ~Arena() { cudaFree(memory_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Runs `work(context)` on scratch of this arena, which is made by its first run.
  template <class Work>
  void run(const Work& work) {
    if (memory_ == nullptr) {
      context_.begin(true, nullptr, 0);
      work(context_);
      bytes_ = context_.scratch_needed();
      FP4SIM_CUDA_CALL(cudaMalloc(&memory_, static_cast<size_t>(std::max<int64_t>(bytes_, 256))));
    }
    context_.begin(false, static_cast<std::byte*>(memory_), bytes_);
    work(context_);
  }

 private:
  Context context_;
  void* memory_ = nullptr;
  int64_t bytes_ = 0;
};

/// Packed (kSize, kSize) operands of roughly normal numbers.
std::vector<OwnedTensor> make_operands(Backend& backend, const std::string& spec) {
  const Shape shape{kSize, kSize};
  const OwnedTensor x = allocate_tensor(backend, {DType::f32, shape, {}, Axis::last});
  std::vector<float> values(static_cast<size_t>(kSize * kSize));
  std::mt19937 random(1);
  std::vector<OwnedTensor> operands;
  for (int i = 0; i < 2 * kPairs; ++i) {
    for (float& v : values) {
      const auto r = static_cast<uint32_t>(random());
      v = static_cast<float>((r & 255u) + (r >> 8 & 255u) + (r >> 16 & 255u) + (r >> 24)) * 0.0068f - 3.468f;
    }
    backend.upload(x.tensor.parts[0], values.data(), 4 * kSize * kSize);
    operands.push_back(allocate_tensor(backend, {DType::packed, shape, parse_quant_spec(spec), Axis::last}));
    const Node node{Op::quantize,
                    {0},
                    {1},
                    {{"spec", spec}, {"axis", "last"}, {"stream", int64_t{0}}, {"row_offset", int64_t{0}}},
                    ""};
    const std::vector<Tensor> in{x.tensor}, out{operands.back().tensor};
    backend.run({node, in, out});
  }
  backend.synchronize();
  return operands;
}

const float* tensor_scale(const Tensor& t) {
  return has_tensor_scale(t.type.spec) ? reinterpret_cast<const float*>(device_data(t.parts[2])) : nullptr;
}
NarrowOperand narrow(const Tensor& t) { return {view_of(t), true, 1, kSize, kSize}; }
Epilogue epilogue_of(const Tensor& a, const Tensor& b) { return {{}, {}, tensor_scale(a), tensor_scale(b), 1.0f}; }

/// The ways of a product: what is expanded, and what is timed.
struct Folded {
  FoldedPair pair;
  DirectProduct direct;
  void expand(const Tensor& a, const Tensor& b, Context& context) {
    const NarrowOperand from_a = narrow(a), from_b = narrow(b);
    pair = fold_scales({&from_a, 1}, {&from_b, 1}, context, true);
    direct = direct_product({&from_a, 1}, {&from_b, 1});
  }
  void multiply(const Tensor& a, const Tensor& b, float* y, Context& context) const {
    multiply_folded(pair, direct, kShape, epilogue_of(a, b), y, context);
  }
};
struct Halves {
  HalvesPair pair;
  void expand(const Tensor& a, const Tensor& b, Context& context) {
    pair = widen_halves(narrow(a), narrow(b), context);
  }
  void multiply(const Tensor& a, const Tensor& b, float* y, Context& context) const {
    multiply_halves(pair, kShape, epilogue_of(a, b), y, context);
  }
};
/// The vector rule: one scale a row.
struct Vectors {
  OperandScales scales_a, scales_b;
  void expand_scales(const Tensor& a, const Tensor& b, Context& context) {
    scales_a = operand_scales(a, Axis::last, 0, context);
    scales_b = operand_scales(b, Axis::last, 0, context);
  }
  Epilogue scaled_epilogue(const Tensor& a, const Tensor& b) const {
    Epilogue epilogue = epilogue_of(a, b);
    epilogue.scales_a = scales_a;
    epilogue.scales_b = scales_b;
    return epilogue;
  }
};
struct Units : Vectors {
  WidePair pair;
  void expand(const Tensor& a, const Tensor& b, Context& context) {
    expand_scales(a, b, context);
    pair = widen_units(narrow(a), narrow(b), context);
  }
  void multiply(const Tensor& a, const Tensor& b, float* y, Context& context) const {
    const ElementFormat& element = a.type.spec.element;
    multiply_units(pair, kShape, 2 * significand_span_bits(element), 2 * min_step_exponent(element),
                   scaled_epilogue(a, b), y, context);
  }
};
struct Digits : Vectors {
  DigitPair pair;
  void expand(const Tensor& a, const Tensor& b, Context& context) {
    expand_scales(a, b, context);
    pair = widen_digits(narrow(a), narrow(b), scales_a, scales_b, context);
  }
  void multiply(const Tensor& a, const Tensor& b, float* y, Context& context) const {
    multiply_digits(pair, kShape, 2 * min_step_exponent(a.type.spec.element), scaled_epilogue(a, b), y, context);
  }
};

/// Times the products of expanded operands on a stream of their own and prints the row.
template <class Way>
void time_product(Backend& backend, const std::string& spec, int multiprocessors) {
  const std::vector<OwnedTensor> operands = make_operands(backend, spec);
  const OwnedTensor y = allocate_tensor(backend, {DType::f32, {kSize, kSize}, {}, Axis::last});
  backend.synchronize();
  cudaStream_t stream;
  cudaEvent_t begin, end;
  FP4SIM_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  FP4SIM_CUDA_CALL(cudaEventCreate(&begin));
  FP4SIM_CUDA_CALL(cudaEventCreate(&end));
  std::vector<Way> ways(kPairs);
  std::vector<std::unique_ptr<Arena>> expanded, products;
  const auto a = [&](int pair) -> const Tensor& { return operands[static_cast<size_t>(2 * pair)].tensor; };
  const auto b = [&](int pair) -> const Tensor& { return operands[static_cast<size_t>(2 * pair + 1)].tensor; };
  const auto multiply = [&](int pair) {
    products[static_cast<size_t>(pair)]->run([&](Context& context) {
      ways[static_cast<size_t>(pair)].multiply(a(pair), b(pair),
                                               reinterpret_cast<float*>(device_data(y.tensor.parts[0])), context);
    });
  };
  for (int pair = 0; pair < kPairs; ++pair) {
    expanded.push_back(std::make_unique<Arena>(stream, multiprocessors));
    products.push_back(std::make_unique<Arena>(stream, multiprocessors));
    expanded.back()->run([&](Context& context) { ways[static_cast<size_t>(pair)].expand(a(pair), b(pair), context); });
    multiply(pair);
  }
  std::vector<float> microseconds;
  for (int run = 0; run < kRuns; ++run) {
    FP4SIM_CUDA_CALL(cudaEventRecord(begin, stream));
    for (int pair = 0; pair < kPairs; ++pair) multiply(pair);
    FP4SIM_CUDA_CALL(cudaEventRecord(end, stream));
    FP4SIM_CUDA_CALL(cudaEventSynchronize(end));
    float milliseconds = 0;
    FP4SIM_CUDA_CALL(cudaEventElapsedTime(&milliseconds, begin, end));
    microseconds.push_back(milliseconds * 1e3f / kPairs);
  }
  std::nth_element(microseconds.begin(), microseconds.begin() + kRuns / 2, microseconds.end());
  const double us = microseconds[kRuns / 2], operations = 2.0 * kSize * kSize * kSize;
  const std::string name = "product alone " + spec + " 8192x8192x8192";
  std::printf("%-72s%12.2f%10.0f%10.2f%12.1f\n", name.c_str(), us, 0.0, 0.0, operations / us * 1e-6);
  std::fflush(stdout);
  FP4SIM_CUDA_CALL(cudaEventDestroy(begin));
  FP4SIM_CUDA_CALL(cudaEventDestroy(end));
  FP4SIM_CUDA_CALL(cudaStreamSynchronize(stream));
  FP4SIM_CUDA_CALL(cudaStreamDestroy(stream));
}

void run() {
  const auto backend = make_backend();
  const int multiprocessors = devices().front().multiprocessors;
  if (!has_warpgroup_products()) throw Error("this device has no warpgroup products");
  time_product<Folded>(*backend, "mxfp4", multiprocessors);
  time_product<Units>(*backend, "e2m1:row:fp32", multiprocessors);
  time_product<Halves>(*backend, "nvfp4", multiprocessors);
  time_product<Digits>(*backend, "e4m3:row:fp32", multiprocessors);
}

}  // namespace
}  // namespace fp4sim::gpu

int main() {
  try {
    fp4sim::gpu::run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_product_bench: %s\n", e.what());
    return 1;
  }
}
