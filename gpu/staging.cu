#include "gpu/staging.h"

#include <cstring>

#include "gpu/cuda_error.h"

namespace fp4sim::gpu {

StagingRing::~StagingRing() {
  for (const Slot& slot : slots_) {
    if (slot.copied != nullptr) cudaEventDestroy(slot.copied);
    if (slot.memory != nullptr) cudaFreeHost(slot.memory);
  }
}

void StagingRing::upload(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  Slot& slot = slots_[static_cast<size_t>(next_)];
  next_ = (next_ + 1) % kSlots;
  if (slot.memory == nullptr) FP4SIM_CUDA_CALL(cudaMallocHost(&slot.memory, kSlotBytes));
  if (slot.copied == nullptr)
    FP4SIM_CUDA_CALL(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming));
  else
    FP4SIM_CUDA_CALL(cudaEventSynchronize(slot.copied));
  std::memcpy(slot.memory, from, static_cast<size_t>(bytes));
  FP4SIM_CUDA_CALL(cudaMemcpyAsync(to, slot.memory, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream));
  FP4SIM_CUDA_CALL(cudaEventRecord(slot.copied, stream));
}

}  // namespace fp4sim::gpu
