// What an op needs to put work on the device: the stream, scratch memory, launches, and the pointers of its tensors.
// An op is a pure function of (NodeCall, Context): it never synchronizes, allocates or copies to the host, and it
// takes the same scratch and makes the same launches whenever it is called on the same node. A first call in planning
// mode only counts the scratch; then the memory exists and the second call launches, maybe inside a graph capture.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "gpu/cuda_error.h"
#include "reference/contract/backend.h"
#include "reference/contract/step_info.h"

namespace fp4sim::gpu {

/// Device memory of the cuda backend.
class DeviceBuffer final : public Buffer {
 public:
  /// Zeroed in the order of `stream`; throws Error with the bytes needed when the device has not got them.
  DeviceBuffer(int64_t bytes, cudaStream_t stream);
  ~DeviceBuffer() override;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// The device address of a component; the part must belong to the cuda backend.
inline std::byte* device_data(const Part& part) {
  return static_cast<DeviceBuffer*>(part.buffer)->data() + part.offset;
}

/// Device address of component `part` of input (output) i of a node. Valid on the device only.
template <class T>
const T* in_data(const NodeCall& call, size_t i, int part = 0) {
  return reinterpret_cast<const T*>(device_data(call.in[i].parts[part]));
}
template <class T>
T* out_data(const NodeCall& call, size_t i = 0, int part = 0) {
  return reinterpret_cast<T*>(device_data(call.out[i].parts[part]));
}
inline int64_t count_in(const NodeCall& call, size_t i) { return element_count(call.in[i].type.shape); }
inline int64_t count_out(const NodeCall& call, size_t i = 0) { return element_count(call.out[i].type.shape); }

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Blocks, threads per block and bytes of dynamic shared memory of one launch.
struct Grid {
  dim3 blocks;
  dim3 threads;
  int64_t shared_bytes = 0;
};

/// The stream, the scratch arena and the launch shape of the node that runs.
class Context {
 public:
  /// Launches go to `stream`. threads: the block size of kernels whose work is split freely (a multiple of 32, at most
  /// 512); results do not depend on it, nor on certifies_small (backend.h).
  Context(cudaStream_t stream, int multiprocessors, int threads, bool certifies_small)
      : stream_(stream), multiprocessors_(multiprocessors), threads_(threads), certifies_small_(certifies_small) {}

  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  int threads() const { return threads_; }
  bool certifies_small() const { return certifies_small_; }

  /// True while only the scratch is counted: nothing may be put on the stream then (launch, zero and copy know it; an
  /// op that calls a library itself must ask).
  bool planning() const { return planning_; }

  /// `count` elements of device memory, 256-byte aligned, uninitialized, this node's until it ends. An address to pass
  /// on, never to read, while planning.
  template <class T>
  T* scratch(int64_t count) {
    return reinterpret_cast<T*>(scratch_bytes(count * static_cast<int64_t>(sizeof(T))));
  }

  /// Puts one kernel on the stream; empty grids are no work. Arguments are converted to the kernel's parameters.
  template <class... Params, class... Args>
  void launch(void (*kernel)(Params...), const Grid& grid, Args&&... args) {
    if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
    if (planning_) return load(reinterpret_cast<const void*>(kernel));
    cudaLaunchConfig_t config{};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = static_cast<size_t>(grid.shared_bytes);
    config.stream = stream_;
    require(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), "kernel launch");
  }

  /// The grid that gives one thread to each of `items`; throws Error beyond 2^31 − 1 blocks.
  Grid per_item(int64_t items) const {
    return {checked(ceil_div(items, threads_)), dim3(static_cast<unsigned>(threads_))};
  }
  /// The grid that gives one warp of 32 lanes to each of `items`: warp w of the grid is
  /// (blockIdx.x·blockDim.x + threadIdx.x) / 32.
  Grid per_warp(int64_t items) const {
    return {checked(ceil_div(items, threads_ / 32)), dim3(static_cast<unsigned>(threads_))};
  }
  /// One block of `threads` for each of `items`.
  static Grid per_block(int64_t items, int threads, int64_t shared_bytes = 0) {
    return {checked(items), dim3(static_cast<unsigned>(threads)), shared_bytes};
  }

  void zero(void* to, int64_t bytes);                    // bytes of zeros, on the stream
  void copy(void* to, const void* from, int64_t bytes);  // device to device, on the stream

  // ---- for the backend ----
  /// Begins a node: planning counts into scratch_needed(), otherwise the arena is handed out from its start.
  void begin(bool planning, std::byte* arena, int64_t capacity) {
    planning_ = planning;
    arena_ = arena;
    capacity_ = capacity;
    used_ = 0;
  }
  int64_t scratch_needed() const { return used_; }

 private:
  std::byte* scratch_bytes(int64_t bytes);
  static dim3 checked(int64_t blocks);
  static void load(const void* kernel);  // its code onto the device, which may not happen inside a capture

  cudaStream_t stream_;
  int multiprocessors_;
  int threads_;
  bool certifies_small_;
  bool planning_ = false;
  std::byte* arena_ = nullptr;
  int64_t capacity_ = 0, used_ = 0;
};

}  // namespace fp4sim::gpu
