// Exact quantiles among keys that order like the floats; a warp keeps a vector in shared memory. A rank near an end:
// the lanes' own extremes, sorted, bound the wanted key, and the few keys within the bound are sorted. Any other rank
// by bisection: a count halves the interval, and the search ends as soon as the wanted key is the least or the greatest
// in it. Loops over a vector stay rolled: code that does not fit its cache costs more than the loops.
#include "gpu/occ_short.h"
#include "gpu/radix_select.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMostLength = 2048;
constexpr int kLinear = 8;  // rounds that halve the interval of values; the later ones halve that of keys
constexpr uint32_t kBeyond = ~uint32_t{0};  // above the keys of all numbers

/// The lanes' keys, ascending by lane.
__device__ uint32_t sort_lanes(uint32_t key) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int size = 2; size <= kWarp; size *= 2)
#pragma unroll
    for (int distance = size / 2; distance > 0; distance /= 2) {
      const uint32_t other = __shfl_xor_sync(kAllLanes, key, distance);
      const bool least = ((lane & distance) == 0) == ((lane & size) == 0);
      key = least ? min(key, other) : max(key, other);
    }
  return key;
}

/// The keys of one vector, in shared memory; lane l looks at l, l + 32, …
struct Keys {
  const uint32_t* key;
  int count;

  /// f(key) for the lane's keys.
  template <class F>
  __device__ void each(const F& f) const {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x % kWarp); i < count; i += kWarp) f(key[i]);
  }
  /// Number of keys up to a limit, in every lane.
  __device__ int up_to(uint32_t limit) const {
    int found = 0;
    each([&](uint32_t k) { found += k <= limit ? 1 : 0; });
    return static_cast<int>(__reduce_add_sync(kAllLanes, static_cast<unsigned>(found)));
  }
  /// The least key from a limit on.
  __device__ uint32_t least_from(uint32_t limit) const {
    uint32_t found = kBeyond;
    each([&](uint32_t k) { found = k >= limit ? min(found, k) : found; });
    return __reduce_min_sync(kAllLanes, found);
  }
  /// The greatest key up to a limit.
  __device__ uint32_t greatest_up_to(uint32_t limit) const {
    uint32_t found = 0;
    each([&](uint32_t k) { found = k <= limit ? max(found, k) : found; });
    return __reduce_max_sync(kAllLanes, found);
  }

  /// The key of a rank, ranks from 0.
  __device__ uint32_t of_rank(int rank) const {
    uint32_t low = least_from(0), high = greatest_up_to(kBeyond - 1);
    int below = 0, through = count;  // keys below `low`; keys up to `high`
    for (int round = 0; low < high; ++round) {
      if (rank == below) return least_from(low);
      if (rank == through - 1) return greatest_up_to(high);
      uint32_t middle = low + (high - low) / 2;
      if (round < kLinear) middle = order_key(0.5f * key_value(low) + 0.5f * key_value(high));
      middle = min(max(middle, low), high - 1);
      const int counted = up_to(middle);
      if (rank < counted) {
        high = middle;
        through = counted;
      } else {
        low = middle + 1;
        below = counted;
      }
    }
    return low;
  }
};

/// Keys near one end of the order, kWarp at most; `seen` counts those that had no room too.
struct Candidates {
  uint32_t* room;  // kWarp words of shared memory
  int seen = 0;

  /// Takes the key of every lane whose flag is set.
  __device__ void take(bool flag, uint32_t key) {
    const unsigned ballot = __ballot_sync(kAllLanes, flag);
    const int place = seen + set_below(ballot);
    if (flag && place < kWarp) room[place] = key;
    seen += __popc(ballot);
  }
  __device__ bool complete() const { return seen <= kWarp; }
  /// The key of this lane's place, `none` beyond the last.
  __device__ uint32_t mine(uint32_t none) const {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    return lane < seen ? room[lane] : none;
  }
};

/// The keys of both ranks as bounds. first, last: the lane's least and greatest key (kBeyond and 0 without any).
__device__ Bounds bounds_of(const Keys& keys, int lower_rank, int upper_rank, uint32_t first, uint32_t last,
                            uint32_t (*rooms)[kWarp]) {
  const int from_above = keys.count - 1 - upper_rank;
  Candidates low{rooms[0]}, high{rooms[1]};
  const bool near = lower_rank < kWarp && from_above < kWarp;
  if (near) {  // rank + 1 keys or more lie within each bound
    const uint32_t most = __shfl_sync(kAllLanes, sort_lanes(first), lower_rank);
    const uint32_t least = __shfl_sync(kAllLanes, sort_lanes(last), kWarp - 1 - from_above);
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x % kWarp); i - static_cast<int>(threadIdx.x % kWarp) < keys.count;
         i += kWarp) {
      const bool inside = i < keys.count;
      const uint32_t key = inside ? keys.key[i] : 0;
      low.take(inside && key <= most, key);
      high.take(inside && key >= least, key);
    }
    __syncwarp();
  }
  const bool low_sorted = near && low.complete(), high_sorted = near && high.complete();
  uint32_t lower = sort_lanes(low.mine(kBeyond)), upper = sort_lanes(high.mine(0));
  lower = low_sorted ? __shfl_sync(kAllLanes, lower, lower_rank) : keys.of_rank(lower_rank);
  upper = high_sorted ? __shfl_sync(kAllLanes, upper, kWarp - 1 - from_above) : keys.of_rank(upper_rank);
  return {key_value(lower), key_value(upper), true};
}

/// One warp a vector of at most kLength elements.
template <int kLength>
__global__ void __launch_bounds__(kThreads)
    clamp_vectors(const float* y, int64_t vectors, int length, int lower_rank, int upper_rank, bool entries, float* yc,
                  EntrySlots slots, int64_t* row_ptr) {
  __shared__ uint32_t held[kWarps][kLength];
  __shared__ uint32_t rooms[kWarps][2][kWarp];
  const int64_t v = thread_number() / kWarp;
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  if (v >= vectors) return;
  const float* from = y + v * length;
  float* to = yc + v * length;
  uint32_t* key = held[warp];
  uint32_t first = kBeyond, last = 0;
  bool nonfinite = false;
#pragma unroll 8
  for (int i = lane; i < length; i += kWarp) {
    const float value = from[i];
    nonfinite = nonfinite || magnitude_bits(value) >= kF32Inf;
    key[i] = order_key(value);
    first = min(first, key[i]);
    last = max(last, key[i]);
  }
  __syncwarp();
  Bounds bounds{0, 0, false};
  if (__any_sync(kAllLanes, nonfinite) == 0)
    bounds = bounds_of({key, length}, lower_rank, upper_rank, first, last, rooms[warp]);
  int count = 0;
#pragma unroll 4
  for (int start = 0; start < length; start += kWarp) {
    const int i = start + lane;
    const float value = i < length ? key_value(key[i]) : 0.0f, clamped = clamp_to(value, bounds);
    const bool entry = entries && i < length && (value < clamped || value > clamped);
    if (i < length) to[i] = clamped;
    const unsigned ballot = __ballot_sync(kAllLanes, entry);
    if (ballot == 0) continue;
    if (entry) {
      const int64_t slot = v * slots.per_vector + count + set_below(ballot);
      slots.positions[slot] = i;
      slots.residuals[slot] = value - clamped;
    }
    count += __popc(ballot);
  }
  if (lane != 0) return;
  row_ptr[v + 1] = count;
  if (v == 0) row_ptr[0] = 0;
}

__global__ void move_entries(EntrySlots slots, CsrView csr, WideResiduals wide) {
  const int64_t v = thread_number() / kWarp;
  if (v >= csr.vectors.count) return;
  const int64_t first = csr.row_ptr[v], count = csr.row_ptr[v + 1] - first;
  uint32_t largest = 0;
  for (int64_t e = threadIdx.x % kWarp; e < count; e += kWarp) {
    const int64_t slot = v * slots.per_vector + e;
    const float residual = slots.residuals[slot];
    store_entry(csr, first + e, slots.positions[slot], residual, wide);
    largest = max(largest, magnitude_bits(residual));
  }
  raise_amax(wide, largest);
}

}  // namespace

bool occ_short_takes(int64_t length) { return length > 0 && length <= kMostLength; }

EntrySlots clamp_short_vectors(const float* y, const Vectors& vectors, double alpha, bool entries, float* yc,
                               int64_t* row_ptr, Context& context) {
  const QuantileIndices at = quantile_indices(alpha, vectors.length);
  const int64_t per_vector = at.lower + vectors.length - 1 - at.upper, slots = entries ? vectors.count * per_vector : 0;
  const EntrySlots to{context.scratch<int32_t>(slots), context.scratch<float>(slots), per_vector};
  const auto kernel = vectors.length <= 512    ? clamp_vectors<512>
                      : vectors.length <= 1536 ? clamp_vectors<1536>
                                               : clamp_vectors<kMostLength>;
  context.launch(kernel, Context::per_block(ceil_div(vectors.count, kWarps), kThreads), y, vectors.count,
                 static_cast<int>(vectors.length), static_cast<int>(at.lower), static_cast<int>(at.upper), entries, yc,
                 to, row_ptr);
  return to;
}

void gather_entries(const EntrySlots& slots, const CsrView& csr, const WideResiduals& wide, Context& context) {
  context.launch(move_entries, context.per_warp(csr.vectors.count), slots, csr, wide);
}

}  // namespace fp4sim::gpu
