// Exact quantiles without a sort: radix selection of both ranks, in one block of threads for a vector, by a few
// launches for a tensor.
#include "gpu/occ_bounds.h"
#include "gpu/radix_select.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;

__device__ Bounds bounds_of(const Selection& s) { return {key_value(s.prefix[0]), key_value(s.prefix[1]), true}; }

/// One block of threads a vector, two warps and more.
__global__ void select_in_vector(const float* y, Vectors vectors, Selection start, Bounds* bounds) {
  __shared__ unsigned histogram[kRanks][kDigits];
  __shared__ Selection selection;
  const int64_t v = blockIdx.x;
  if (threadIdx.x == 0) selection = start;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = threadIdx.x; i < kRanks * kDigits; i += blockDim.x) histogram[i / kDigits][i % kDigits] = 0;
    __syncthreads();
    const uint32_t prefix[kRanks] = {selection.prefix[0], selection.prefix[1]};
    bool nonfinite = false;
    for (int64_t k = threadIdx.x; k < vectors.length; k += blockDim.x) {
      const float value = y[vectors.at(v, k)];
      nonfinite = nonfinite || magnitude_bits(value) >= kF32Inf;
      const uint32_t key = order_key(value);
      for (int which = 0; which < kRanks; ++which)
        if (shares_prefix(key, prefix[which], round)) atomicAdd(&histogram[which][digit_of(key, round)], 1u);
    }
    if (__syncthreads_or(nonfinite) != 0) {
      if (threadIdx.x == 0) bounds[v] = {0, 0, false};
      return;
    }
    const int warp = threadIdx.x / kWarp;
    if (warp < kRanks) append_digit(histogram[warp], selection, warp);
    __syncthreads();
  }
  if (threadIdx.x == 0) bounds[v] = bounds_of(selection);
}

/// The state of a selection over the whole tensor.
struct TensorSelection {
  Selection selection;
  unsigned nonfinite;
  unsigned long long histogram[kRanks][kDigits];
};

__global__ void begin_tensor(Selection start, TensorSelection* state) {
  if (threadIdx.x == 0) {
    state->selection = start;
    state->nonfinite = 0;
  }
  for (int i = threadIdx.x; i < kRanks * kDigits; i += blockDim.x) state->histogram[i / kDigits][i % kDigits] = 0;
}

/// Adds the counts of all elements to the histograms of a round.
__global__ void count_digits(const float* y, int64_t count, int round, TensorSelection* state) {
  __shared__ unsigned histogram[kRanks][kDigits];
  for (int i = threadIdx.x; i < kRanks * kDigits; i += blockDim.x) histogram[i / kDigits][i % kDigits] = 0;
  __syncthreads();
  const uint32_t prefix[kRanks] = {state->selection.prefix[0], state->selection.prefix[1]};
  bool nonfinite = false;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const float value = y[i];
    nonfinite = nonfinite || magnitude_bits(value) >= kF32Inf;
    const uint32_t key = order_key(value);
    for (int which = 0; which < kRanks; ++which)
      if (shares_prefix(key, prefix[which], round)) atomicAdd(&histogram[which][digit_of(key, round)], 1u);
  }
  if (nonfinite) atomicOr(&state->nonfinite, 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < kRanks * kDigits; i += blockDim.x) {
    const unsigned n = histogram[i / kDigits][i % kDigits];
    if (n != 0) atomicAdd(&state->histogram[i / kDigits][i % kDigits], static_cast<unsigned long long>(n));
  }
}

/// Two warps: the digit of a round for each rank, then empty histograms for the next; after the last the bounds.
__global__ void end_round(int round, TensorSelection* state, Bounds* bounds) {
  __shared__ Selection selection;
  const int warp = threadIdx.x / kWarp;
  if (threadIdx.x == 0) selection = state->selection;
  __syncthreads();
  append_digit(state->histogram[warp], selection, warp);
  __syncthreads();
  for (int i = threadIdx.x; i < kRanks * kDigits; i += blockDim.x) state->histogram[i / kDigits][i % kDigits] = 0;
  if (threadIdx.x != 0) return;
  state->selection = selection;
  if (round == kRounds - 1) *bounds = state->nonfinite != 0 ? Bounds{0, 0, false} : bounds_of(selection);
}

Selection start_of(double alpha, int64_t n) {
  const QuantileIndices at = quantile_indices(alpha, n);
  return {{0, 0}, {at.lower, at.upper}};
}

}  // namespace

void vector_bounds(const float* y, const Vectors& vectors, double alpha, Bounds* bounds, Context& context) {
  if (vectors.length == 0) return;
  const int64_t threads = std::clamp<int64_t>(ceil_div(vectors.length, kWarp) * kWarp, kRanks * kWarp, kThreads);
  context.launch(select_in_vector, Context::per_block(vectors.count, static_cast<int>(threads)), y, vectors,
                 start_of(alpha, vectors.length), bounds);
}

void tensor_bounds(const float* y, int64_t count, double alpha, Bounds* bounds, Context& context) {
  auto* state = context.scratch<TensorSelection>(1);
  const int64_t blocks = std::min<int64_t>(ceil_div(count, kThreads), 8 * context.multiprocessors());
  context.launch(begin_tensor, Context::per_block(1, kThreads), start_of(alpha, count), state);
  for (int round = 0; round < kRounds; ++round) {
    context.launch(count_digits, Context::per_block(blocks, kThreads), y, count, round, state);
    context.launch(end_round, Context::per_block(1, kRanks * kWarp), round, state, bounds);
  }
}

}  // namespace fp4sim::gpu
