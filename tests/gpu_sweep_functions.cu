#include "tests/gpu_sweep_functions.h"

#include "gpu/elementary.cuh"
#include "gpu/launch.h"

namespace fp4sim::test {
namespace {

constexpr int kThreads = 256, kMaxBlocks = 2048;

__device__ uint64_t canonical(double y) { return y == y ? gpu::bits_of(y) : 0x7FF8000000000000ull; }
__device__ uint64_t canonical(float y) { return y == y ? gpu::bits_of(y) : kF32CanonicalNaN; }

template <Function f>
__device__ uint64_t result_bits(uint32_t input) {
  const float x = gpu::float_of(input);
  if constexpr (f == Function::exp64) return canonical(gpu::exp64(static_cast<double>(x)));
  if constexpr (f == Function::log64) return canonical(gpu::log64(static_cast<double>(x)));
  if constexpr (f == Function::tanh64) return canonical(gpu::tanh64(static_cast<double>(x)));
  if constexpr (f == Function::exp_f32) return canonical(gpu::exp_f32(x));
  return canonical(gpu::log_f32(x));
}

template <Function f>
__global__ void store_values(uint32_t first, int64_t count, uint64_t* values) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    values[i] = result_bits<f>(first + static_cast<uint32_t>(i));
}

/// Integer sums that wrap: the order of the additions does not matter.
template <Function f>
__global__ void add_values(uint32_t first, int64_t count, unsigned long long* sum) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint32_t input = first + static_cast<uint32_t>(i);
    mine += mixed(result_bits<f>(input), input);
  }
  atomicAdd(sum, static_cast<unsigned long long>(mine));
}

/// Device memory of `count` words, zero.
class Words {
 public:
  explicit Words(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(uint64_t)) {
    FP4SIM_CUDA_CALL(cudaMalloc(&data_, bytes_));
    FP4SIM_CUDA_CALL(cudaMemsetAsync(data_, 0, bytes_, nullptr));
  }
  ~Words() { cudaFree(data_); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  uint64_t* data() const { return static_cast<uint64_t*>(data_); }
  void download(uint64_t* to) const {
    FP4SIM_CUDA_CALL(cudaMemcpyAsync(to, data_, bytes_, cudaMemcpyDeviceToHost, nullptr));
    FP4SIM_CUDA_CALL(cudaStreamSynchronize(nullptr));
  }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

unsigned blocks_of(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <Function f>
void launch(bool sum, uint32_t first, int64_t count, const Words& to) {
  gpu::Context context(nullptr, 0, kThreads, false);
  const gpu::Grid grid{dim3(blocks_of(count)), dim3(kThreads)};
  if (sum)
    context.launch(add_values<f>, grid, first, count, reinterpret_cast<unsigned long long*>(to.data()));
  else
    context.launch(store_values<f>, grid, first, count, to.data());
}

void launch(Function f, bool sum, uint32_t first, int64_t count, const Words& to) {
  switch (f) {
    case Function::exp64: return launch<Function::exp64>(sum, first, count, to);
    case Function::log64: return launch<Function::log64>(sum, first, count, to);
    case Function::tanh64: return launch<Function::tanh64>(sum, first, count, to);
    case Function::exp_f32: return launch<Function::exp_f32>(sum, first, count, to);
    case Function::log_f32: return launch<Function::log_f32>(sum, first, count, to);
  }
}

}  // namespace

std::vector<uint64_t> device_values(Function f, uint32_t first, int64_t count) {
  const Words words(count);
  launch(f, false, first, count, words);
  std::vector<uint64_t> values(static_cast<size_t>(count));
  words.download(values.data());
  return values;
}

uint64_t device_sum(Function f, uint32_t first, int64_t count) {
  const Words word(1);
  launch(f, true, first, count, word);
  uint64_t sum = 0;
  word.download(&sum);
  return sum;
}

}  // namespace fp4sim::test
