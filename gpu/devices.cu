// The devices of this machine.
#include <cuda_runtime.h>

#include "gpu/backend.h"
#include "gpu/cuda_error.h"
#include "reference/contract/error.h"

namespace fp4sim::gpu {
namespace {

/// 1000·major + 10·minor of the newest CUDA version that the driver runs; 0 without a driver.
int driver_version() {
  int version = 0;
  FP4SIM_CUDA_CALL(cudaDriverGetVersion(&version));
  return version;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

std::vector<DeviceInfo> devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    if (driver_version() == 0) throw Error("no CUDA device: there is no NVIDIA driver on this machine");
    throw Error(std::string("no CUDA device: ") +
                (status != cudaSuccess ? cudaGetErrorString(status) : "the driver reports none"));
  }
  std::vector<DeviceInfo> list;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p;
    FP4SIM_CUDA_CALL(cudaGetDeviceProperties(&p, i));
    list.push_back({i, p.name, static_cast<int64_t>(p.totalGlobalMem), p.major, p.minor, p.multiProcessorCount,
                    version_text(driver_version())});
  }
  return list;
}

}  // namespace fp4sim::gpu
