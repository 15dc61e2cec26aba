// hadamard (numerics.md §6): signs, Sylvester-order butterflies in registers, one multiply; the inverse puts the signs
// last.
#include <cmath>

#include "gpu/ops.h"
#include "gpu/philox.cuh"
#include "gpu/vectors.cuh"
#include "gpu/warp.cuh"
#include "reference/contract/reduction_order.h"

namespace fp4sim::gpu {
namespace {

/// Where the signs of a block's positions come from: 128 fixed bits, or the Philox block (0, 0, stream, step).
struct SignSource {
  uint32_t fixed;  // sixteen signs twice; 0: none
  const StepInfo* step;
  uint32_t stream;

  /// Bit j mod 32 of word j/32 is set where position j has sign −1.
  FP4SIM_HD PhiloxWords words() const {
    if (step == nullptr) return {{fixed, fixed, fixed, fixed}};
    return philox(step->seed, 0, stream, step->step);
  }
};

__device__ float signed_by(float v, uint32_t word, int bit) {
  return float_of(bits_of(v) ^ ((word >> bit & 1u) << 31));
}

/// What every block of n does besides its loads.
struct Rotation {
  SignSource signs;
  float factor;  // fl(1/sqrt(n))
  bool inverse;
};

/// Contiguous vectors: a warp holds 32·quarters elements, one block of n or (n = 16) two; lane l holds elements
/// l, l + 32, …
template <int n>
__global__ void rotate_rows(const float* x, int64_t pieces, Rotation rotation, int64_t elements, float* y) {
  constexpr int kHeld = n <= kWarp ? 1 : n / kWarp, kPiece = kHeld * kWarp;
  constexpr int kLaneStrides = n < kWarp ? n : kWarp;
  const int lane = threadIdx.x % kWarp;
  const PhiloxWords words = rotation.signs.words();
  const int64_t warps = int64_t{gridDim.x} * blockDim.x / kWarp;
  for (int64_t piece = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; piece < pieces; piece += warps) {
    const int64_t first = piece * kPiece + lane;
    float v[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      v[h] = first + h * kWarp < elements ? x[first + h * kWarp] : 0.0f;
      if (!rotation.inverse) v[h] = signed_by(v[h], words.w[h], lane % kLaneStrides);
    }
#pragma unroll
    for (int stride = 1; stride < kLaneStrides; stride *= 2)
#pragma unroll
      for (int h = 0; h < kHeld; ++h) {
        const float other = __shfl_xor_sync(kAllLanes, v[h], stride);
        v[h] = (lane & stride) == 0 ? v[h] + other : other - v[h];
      }
#pragma unroll
    for (int stride = 1; stride < kHeld; stride *= 2)
#pragma unroll
      for (int h = 0; h < kHeld; ++h)
        if ((h & stride) == 0) {
          const float a = v[h], b = v[h | stride];
          v[h] = a + b;
          v[h | stride] = a - b;
        }
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      v[h] = v[h] * rotation.factor;
      if (rotation.inverse) v[h] = signed_by(v[h], words.w[h], lane % kLaneStrides);
      if (first + h * kWarp < elements) y[first + h * kWarp] = v[h];
    }
  }
}

/// Vectors with a stride: one thread holds a block of n of one vector; neighbouring threads have neighbouring vectors.
template <int n>
__global__ void rotate_columns(const float* x, Vectors vectors, Rotation rotation, float* y) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t block = quotient(item, vectors.count), vector = item - block * vectors.count;
  if (block >= vectors.length / n) return;
  const PhiloxWords words = rotation.signs.words();
  const int64_t begin = vectors.at(vector, block * n);
  float v[n];
#pragma unroll
  for (int j = 0; j < n; ++j) {
    v[j] = x[begin + j * vectors.stride];
    if (!rotation.inverse) v[j] = signed_by(v[j], words.w[j / 32], j % 32);
  }
#pragma unroll
  for (int stride = 1; stride < n; stride *= 2)
#pragma unroll
    for (int j = 0; j < n; ++j)
      if ((j & stride) == 0) {
        const float a = v[j], b = v[j | stride];
        v[j] = a + b;
        v[j | stride] = a - b;
      }
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const float scaled = v[j] * rotation.factor;
    y[begin + j * vectors.stride] = rotation.inverse ? signed_by(scaled, words.w[j / 32], j % 32) : scaled;
  }
}

Rotation rotation_of(const NodeCall& call) {
  const Attrs& attrs = call.node.attrs;
  const std::string& signs = attrs.text("signs");
  Rotation r{
      {0, nullptr, 0}, 1.0f / std::sqrt(static_cast<float>(attrs.integer("n"))), attrs.integer_or("inverse", 0) != 0};
  if (signs == "fixed16") r.signs.fixed = kHadamardFixedSigns << 16 | kHadamardFixedSigns;
  if (signs == "philox") {
    r.signs.step = in_data<StepInfo>(call, 1);
    r.signs.stream = static_cast<uint32_t>(attrs.integer("stream"));
  }
  return r;
}

template <int n>
void rotate(const NodeCall& call, Context& context) {
  const Vectors vectors = vectors_of(call.in[0].type.shape, parse_axis(call.node.attrs.text("axis")));
  const float* x = in_data<float>(call, 0);
  float* y = out_data<float>(call);
  if (vectors.stride == 1) {
    const int64_t elements = vectors.count * vectors.length, pieces = ceil_div(elements, n < kWarp ? kWarp : n);
    const int64_t warps = std::min<int64_t>(pieces, int64_t{64} * context.multiprocessors());
    context.launch(rotate_rows<n>, context.per_warp(warps), x, pieces, rotation_of(call), elements, y);
  } else {
    constexpr int kThreads = 128;  // up to 128 elements of a thread are in registers
    const int64_t items = vectors.count * (vectors.length / n);
    context.launch(rotate_columns<n>, Context::per_block(ceil_div(items, kThreads), kThreads), x, vectors,
                   rotation_of(call), y);
  }
}

}  // namespace

void ops::hadamard(const NodeCall& call, Context& context) {
  switch (call.node.attrs.integer("n")) {
    case 16: return rotate<16>(call, context);
    case 32: return rotate<32>(call, context);
    case 64: return rotate<64>(call, context);
    default: return rotate<128>(call, context);
  }
}

}  // namespace fp4sim::gpu
