// CUDA's status codes as fp4sim::Error.
#pragma once

#include <cuda_runtime_api.h>

namespace fp4sim::gpu {

/// Throws Error with the call and CUDA's message unless `status` is cudaSuccess. The sticky last error is cleared, so
/// that the next call does not report it again.
void require(cudaError_t status, const char* call);

}  // namespace fp4sim::gpu

/// FP4SIM_CUDA_CALL(cudaMemcpy(…)): a failed call becomes an Error that names it.
#define FP4SIM_CUDA_CALL(call) ::fp4sim::gpu::require((call), #call)
