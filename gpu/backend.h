// Backend `cuda`: every op on one NVIDIA GPU with the bits of `scalar`. A compiled plan is one CUDA graph. Nothing here
// needs CUDA's headers; without a driver or a device the functions throw Error in one line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::gpu {

/// One device as `fp4sim devices` prints it.
struct DeviceInfo {
  int index;
  std::string name;
  int64_t memory_bytes;
  int compute_major, compute_minor;
  int multiprocessors;
  std::string driver;  // the newest CUDA version that the driver runs: "13.0"
};

/// The devices of this machine, at least one. Throws Error if there is no driver or no device.
std::vector<DeviceInfo> devices();

struct BackendOptions {
  int device = 0;
  int threads = 256;             // block size of kernels whose work is split freely: a multiple of 32, at most 512
  int lanes = 3;                 // streams of a compiled plan: its independent steps run side by side
  bool certifies_small = false;  // products of any size try the ways that must first be proved exact
};

/// Throws Error if there is no such device.
std::unique_ptr<Backend> make_backend(const BackendOptions& options = {});

}  // namespace fp4sim::gpu
