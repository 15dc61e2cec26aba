// Exact quantiles among keys that order like the floats. A rank near an end: the lanes' own extremes, sorted, bound the
// wanted key, and the few keys within the bound are sorted. Any other rank by bisection: a count over the warp's
// registers halves the interval, and the search ends as soon as the wanted key is the least or the greatest in it.
#include "gpu/occ_short.h"
#include "gpu/radix_select.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kMostHeld = 64;  // elements of a vector in one lane
constexpr int kLinear = 8;     // rounds that halve the interval of values; the later ones halve that of keys
constexpr uint32_t kBeyond = ~uint32_t{0};  // key of places beyond the vector, above those of all numbers

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

/// The order of keys, or its reverse with the places beyond the vector still last.
template <bool reversed>
__device__ uint32_t ordered(uint32_t key) {
  return reversed && key != kBeyond ? ~key : key;
}

/// The keys of a vector: place k of a lane holds element 32·k + lane.
template <int kHeld>
struct Keys {
  uint32_t key[kHeld];

  /// Number of keys up to a limit, in every lane.
  __device__ int up_to(uint32_t limit) const {
    int count = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) count += key[k] <= limit ? 1 : 0;
    return static_cast<int>(__reduce_add_sync(kAllLanes, static_cast<unsigned>(count)));
  }
  /// The least key from a limit on.
  __device__ uint32_t least_from(uint32_t limit) const {
    uint32_t found = kBeyond;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) found = key[k] >= limit ? min(found, key[k]) : found;
    return __reduce_min_sync(kAllLanes, found);
  }
  /// The greatest key up to a limit.
  __device__ uint32_t greatest_up_to(uint32_t limit) const {
    uint32_t found = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) found = key[k] <= limit ? max(found, key[k]) : found;
    return __reduce_max_sync(kAllLanes, found);
  }

  /// The key of a rank among `count` keys, ranks from 0.
  __device__ uint32_t of_rank(int rank, int count) const {
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

  /// The key of a rank near the start of the order (or of its reverse) in the order's terms. `room`: kWarp words of
  /// this warp. False if too many keys lie within the bound.
  template <bool reversed>
  __device__ bool near_end(int rank, uint32_t* room, uint32_t& found) const {
    if (rank >= kWarp) return false;
    uint32_t first = kBeyond;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) first = min(first, ordered<reversed>(key[k]));
    const uint32_t bound = __shfl_sync(kAllLanes, sort_lanes(first), rank);  // rank + 1 keys or more lie within it
    int count = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const uint32_t mine = ordered<reversed>(key[k]);
      const unsigned within = __ballot_sync(kAllLanes, mine <= bound);
      if (within == 0) continue;
      const int place = count + set_below(within);
      if (mine <= bound && place < kWarp) room[place] = mine;
      count += __popc(within);
    }
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const uint32_t candidate = lane < count ? room[lane] : kBeyond;
    __syncwarp();
    if (count > kWarp) return false;
    found = __shfl_sync(kAllLanes, sort_lanes(candidate), rank);
    return true;
  }
};

/// The keys of both ranks as bounds.
template <int kHeld>
__device__ Bounds bounds_of(const Keys<kHeld>& keys, int lower_rank, int upper_rank, int length, uint32_t* room) {
  uint32_t lower, upper;
  if (!keys.template near_end<false>(lower_rank, room, lower)) lower = keys.of_rank(lower_rank, length);
  if (keys.template near_end<true>(length - 1 - upper_rank, room, upper)) {
    upper = ~upper;
  } else {
    upper = keys.of_rank(upper_rank, length);
  }
  return {key_value(lower), key_value(upper), true};
}

/// One warp a vector of at most 32·kHeld elements.
template <int kHeld>
__global__ void __launch_bounds__(kThreads)
    clamp_vectors(const float* y, int64_t vectors, int length, int lower_rank, int upper_rank, bool entries, float* yc,
                  EntrySlots slots, int64_t* row_ptr) {
  __shared__ uint32_t rooms[kThreads / kWarp][kWarp];
  const int64_t v = thread_number() / kWarp;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  if (v >= vectors) return;
  const float* from = y + v * length;
  float* to = yc + v * length;
  Keys<kHeld> keys;
  bool nonfinite = false;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = k * kWarp + lane;
    const float value = i < length ? from[i] : 0.0f;
    nonfinite = nonfinite || magnitude_bits(value) >= kF32Inf;
    keys.key[k] = i < length ? order_key(value) : kBeyond;
  }
  Bounds bounds{0, 0, false};
  if (__any_sync(kAllLanes, nonfinite) == 0)
    bounds = bounds_of(keys, lower_rank, upper_rank, length, rooms[threadIdx.x / kWarp]);
  int count = 0;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = k * kWarp + lane;
    const float value = key_value(keys.key[k]), clamped = clamp_to(value, bounds);
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

bool occ_short_takes(int64_t length) { return length > 0 && length <= kMostHeld * kWarp; }

EntrySlots clamp_short_vectors(const float* y, const Vectors& vectors, double alpha, bool entries, float* yc,
                               int64_t* row_ptr, Context& context) {
  const QuantileIndices at = quantile_indices(alpha, vectors.length);
  const int64_t per_vector = at.lower + vectors.length - 1 - at.upper, slots = entries ? vectors.count * per_vector : 0;
  const EntrySlots to{context.scratch<int32_t>(slots), context.scratch<float>(slots), per_vector};
  const int64_t held = ceil_div(vectors.length, kWarp);
  const auto kernel = held <= 4    ? clamp_vectors<4>
                      : held <= 12 ? clamp_vectors<12>
                      : held <= 24 ? clamp_vectors<24>
                      : held <= 48 ? clamp_vectors<48>
                                   : clamp_vectors<kMostHeld>;
  context.launch(kernel, Context::per_block(ceil_div(vectors.count, kThreads / kWarp), kThreads), y, vectors.count,
                 static_cast<int>(vectors.length), static_cast<int>(at.lower), static_cast<int>(at.upper), entries, yc,
                 to, row_ptr);
  return to;
}

void gather_entries(const EntrySlots& slots, const CsrView& csr, const WideResiduals& wide, Context& context) {
  context.launch(move_entries, context.per_warp(csr.vectors.count), slots, csr, wide);
}

}  // namespace fp4sim::gpu
