#include "gpu/staging.h"

#include <algorithm>
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

/// One place in use.
class DownloadSlots::Slot final : public Download {
 public:
  Slot(void* to, const void* staged, int64_t bytes, bool& taken)
      : to_(to), staged_(staged), bytes_(bytes), taken_(taken) {
    FP4SIM_CUDA_CALL(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
    taken_ = true;
  }
  ~Slot() override {
    cudaEventSynchronize(copied_);  // the place is free only once nothing writes to it
    cudaEventDestroy(copied_);
    taken_ = false;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void wait() override {
    FP4SIM_CUDA_CALL(cudaEventSynchronize(copied_));
    std::memcpy(to_, staged_, static_cast<size_t>(bytes_));
  }
  cudaEvent_t copied() const { return copied_; }

 private:
  void* to_;
  const void* staged_;
  int64_t bytes_;
  bool& taken_;
  cudaEvent_t copied_ = nullptr;
};

DownloadSlots::~DownloadSlots() {
  if (memory_ != nullptr) cudaFreeHost(memory_);
}

std::unique_ptr<Download> DownloadSlots::start(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  const auto free = std::ranges::find(taken_, false);
  if (bytes > kSlotBytes || free == taken_.end()) return nullptr;
  if (memory_ == nullptr) {
    void* memory = nullptr;
    FP4SIM_CUDA_CALL(cudaMallocHost(&memory, kSlots * kSlotBytes));
    memory_ = static_cast<std::byte*>(memory);
  }
  std::byte* staged = memory_ + (free - taken_.begin()) * kSlotBytes;
  auto slot = std::make_unique<Slot>(to, staged, bytes, *free);
  FP4SIM_CUDA_CALL(cudaMemcpyAsync(staged, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream));
  FP4SIM_CUDA_CALL(cudaEventRecord(slot->copied(), stream));
  return slot;
}

}  // namespace fp4sim::gpu
