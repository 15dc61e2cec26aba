// Pinned host memory through which small uploads and downloads pass, so that they overlap with the device's work.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "reference/contract/backend.h"

namespace fp4sim::gpu {

/// A ring of pinned buffers: an upload waits only when the one kSlots uploads ago has not reached the device yet.
class StagingRing {
 public:
  static constexpr int64_t kSlotBytes = 1 << 20;  // larger uploads do not pass through here

  StagingRing() = default;
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  /// Copies at most kSlotBytes to the device in the order of `stream`; `from` is free on return.
  void upload(void* to, const void* from, int64_t bytes, cudaStream_t stream);

 private:
  static constexpr int kSlots = 16;
  struct Slot {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  std::array<Slot, kSlots> slots_{};
  int next_ = 0;
};

/// Pinned places for small downloads that are awaited later.
class DownloadSlots {
 public:
  static constexpr int64_t kSlotBytes = 64;

  DownloadSlots() = default;
  ~DownloadSlots();
  DownloadSlots(const DownloadSlots&) = delete;
  DownloadSlots& operator=(const DownloadSlots&) = delete;

  /// Starts the copy in the order of `stream`; `to` is filled by wait(). nullptr: too large, or every place is taken.
  std::unique_ptr<Download> start(void* to, const void* from, int64_t bytes, cudaStream_t stream);

 private:
  class Slot;
  static constexpr int kSlots = 16;

  std::byte* memory_ = nullptr;  // of all places
  std::array<bool, kSlots> taken_{};
};

}  // namespace fp4sim::gpu
