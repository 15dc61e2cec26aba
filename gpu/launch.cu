#include "gpu/launch.h"

#include <limits>
#include <string>

#include "reference/contract/error.h"

namespace fp4sim::gpu {
namespace {

constexpr int64_t kScratchAlignment = 256;

}  // namespace

void require(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  const std::string text(call);
  throw Error("cuda: " + text.substr(0, text.find('(')) + ": " + cudaGetErrorString(status));
}

DeviceBuffer::DeviceBuffer(int64_t bytes, cudaStream_t stream) {
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, kScratchAlignment));
  const cudaError_t status = cudaMalloc(reinterpret_cast<void**>(&data_), size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    FP4SIM_CUDA_CALL(cudaMemGetInfo(&free, &total));
    throw Error("out of device memory: " + std::to_string(bytes) + " bytes needed, " + std::to_string(free) + " of " +
                std::to_string(total) + " free");
  }
  require(status, "cudaMalloc");
  const cudaError_t zeroed = cudaMemsetAsync(data_, 0, size, stream);
  if (zeroed != cudaSuccess) cudaFree(data_);
  require(zeroed, "cudaMemsetAsync");
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }  // waits for the device's work

void Context::zero(void* to, int64_t bytes) {
  if (planning_ || bytes == 0) return;
  FP4SIM_CUDA_CALL(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_));
}

void Context::copy(void* to, const void* from, int64_t bytes) {
  if (planning_ || bytes == 0) return;
  FP4SIM_CUDA_CALL(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_));
}

std::byte* Context::scratch_bytes(int64_t bytes) {
  const int64_t begin = used_;
  used_ += ceil_div(bytes, kScratchAlignment) * kScratchAlignment;
  if (!planning_ && used_ > capacity_)
    throw Error("cuda: an op takes " + std::to_string(used_) + " bytes of scratch memory, planned were " +
                std::to_string(capacity_));
  return arena_ + begin;
}

dim3 Context::checked(int64_t blocks) {
  if (blocks > std::numeric_limits<int32_t>::max())
    throw Error("cuda: a launch of " + std::to_string(blocks) + " blocks; the limit is 2147483647");
  return dim3(static_cast<unsigned>(blocks));
}

void Context::load(const void* kernel) {
  cudaFuncAttributes attributes;
  FP4SIM_CUDA_CALL(cudaFuncGetAttributes(&attributes, kernel));
}

}  // namespace fp4sim::gpu
