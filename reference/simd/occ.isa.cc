// Order statistics by counting, clamping, and lists of the clamped places (numerics.md §6).
#include "reference/simd/encode.h"
#include "reference/simd/kernels_occ.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

inline int32_t key_of(int32_t bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }  // its own inverse
inline I32 keys_of(I32 bits) { return bits ^ ((bits >> 31) & I32(0x7FFFFFFF)); }

bool order_keys(const float* x, int64_t n, int32_t* keys) {
  bool finite = true;
  I32 largest(0);
  int64_t i = 0;
  for (; i + kF32Width <= n; i += kF32Width) {
    const I32 bits = as_i32(F32::load_unaligned(x + i));
    largest = xsimd::max(largest, bits & I32(0x7FFFFFFF));
    keys_of(bits).store_unaligned(keys + i);
  }
  for (; i < n; ++i) {
    const auto bits = __builtin_bit_cast(int32_t, x[i]);
    finite = finite && (bits & 0x7FFFFFFF) < static_cast<int32_t>(kF32Inf);
    keys[i] = key_of(bits);
  }
  return finite && !xsimd::any(largest >= I32(static_cast<int32_t>(kF32Inf)));
}

/// Sum of lanes that hold counts.
#if defined(FP4SIM_ISA_avx512)
inline int64_t sum_lanes(__m512i v) { return _mm512_reduce_add_epi32(v); }
#else
inline int64_t sum_lanes(__m128i v) {
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1)));
}
#endif
#if defined(FP4SIM_ISA_avx2)
inline int64_t sum_lanes(__m256i v) {
  return sum_lanes(_mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
#endif

inline I32 lane_where(xsimd::batch_bool<int32_t, Arch> condition) { return xsimd::select(condition, I32(1), I32(0)); }

/// Number of keys ≤ bound.
int64_t count_up_to(const int32_t* keys, int64_t n, int32_t bound) {
  constexpr int64_t kChunk = int64_t{1} << 30;  // sums of lanes stay below 2^31
  int64_t above = 0, i = 0;
  const I32 bounds(bound);
  while (n - i >= kF32Width) {
    I32 even(0), odd(0);
    const int64_t end = n - i < kChunk ? n : i + kChunk;
    for (; i + 2 * kF32Width <= end; i += 2 * kF32Width) {
      even = even + lane_where(I32::load_unaligned(keys + i) > bounds);
      odd = odd + lane_where(I32::load_unaligned(keys + i + kF32Width) > bounds);
    }
    if (end - i >= kF32Width) {
      even = even + lane_where(I32::load_unaligned(keys + i) > bounds);
      i += kF32Width;
    }
    above += sum_lanes(static_cast<I32::register_type>(even + odd));
  }
  for (; i < n; ++i) above += keys[i] > bound;
  return n - above;
}

/// The key of rank `rank`, by bisection: the smallest key such that more than `rank` keys are not above it.
int32_t nth_by_counting(const int32_t* keys, int64_t n, int64_t rank) {
  int64_t low = -0x80000000LL, high = 0x7FFFFFFF;
  while (low < high) {
    const int64_t middle = (low + high) >> 1;
    if (count_up_to(keys, n, static_cast<int32_t>(middle)) > rank)
      high = middle;
    else
      low = middle + 1;
  }
  return static_cast<int32_t>(low);
}

// Short tails (1 % of a row) go another way: the least key of each of several groups of elements. The key of rank r
// among these minima bounds the key of rank r from above, so that few elements remain to choose from. The greatest keys
// are the least ones of the complements.
constexpr int64_t kMostInserted = 15;
constexpr int64_t kMostRank = 255;
constexpr int64_t kMostGroups = 1024;

/// The key of rank `rank` ≤ kMostInserted, by insertion into the list of the least keys so far.
int32_t nth_by_insertion(const int32_t* keys, int64_t n, int64_t rank) {
  int32_t least[kMostInserted + 1];
  int64_t held = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t k = keys[i];
    if (held > rank) {
      if (k >= least[rank]) continue;
      --held;
    }
    int64_t at = held++;
    for (; at > 0 && least[at - 1] > k; --at) least[at] = least[at - 1];
    least[at] = k;
  }
  return least[rank];
}

int32_t nth_of_few(const int32_t* keys, int64_t n, int64_t rank) {
  return rank <= kMostInserted ? nth_by_insertion(keys, n, rank) : nth_by_counting(keys, n, rank);
}

/// Calls found(key) for every key[i] ^ flip that is ≤ bound.
template <class Found>
void for_each_up_to(const int32_t* keys, int64_t n, int32_t flip, int32_t bound, const Found& found) {
  const I32 flips(flip), bounds(bound);
  int64_t i = 0;
  for (; i + kF32Width <= n; i += kF32Width) {
    const I32 v = I32::load_unaligned(keys + i) ^ flips;
    const auto hit = v <= bounds;
    if (!xsimd::any(hit)) continue;
    for (int64_t l = i; l < i + kF32Width; ++l)
      if ((keys[l] ^ flip) <= bound) found(keys[l] ^ flip);
  }
  for (; i < n; ++i)
    if ((keys[i] ^ flip) <= bound) found(keys[i] ^ flip);
}

/// The key of rank `rank` among the keys ^ flip; minima: of `groups` groups of them.
int32_t nth_key(const int32_t* keys, int64_t n, int32_t flip, int64_t rank, const int32_t* minima, int64_t groups,
                int32_t* scratch) {
  const int32_t bound = nth_of_few(minima, groups, rank);
  int64_t count = 0;
  for_each_up_to(keys, n, flip, bound, [&](int32_t key) { scratch[count++] = key; });
  return nth_of_few(scratch, count, rank);
}

/// Minima of the keys and of their complements, element i in group i mod groups.
void group_minima(const int32_t* keys, int64_t n, int64_t groups, int32_t* low, int32_t* high) {
  const I32 complement(-1);
  for (int64_t g = 0; g < groups; g += kF32Width) {
    I32 least(0x7FFFFFFF), greatest(0x7FFFFFFF);
    int64_t i = g;
    for (; i + kF32Width <= n; i += groups) {
      const I32 v = I32::load_unaligned(keys + i);
      least = xsimd::min(least, v);
      greatest = xsimd::min(greatest, v ^ complement);
    }
    least.store_unaligned(low + g);
    greatest.store_unaligned(high + g);
    for (; i < n; ++i) {  // the last vector is partial
      const int64_t at = g + i % kF32Width;
      low[at] = keys[i] < low[at] ? keys[i] : low[at];
      high[at] = ~keys[i] < high[at] ? ~keys[i] : high[at];
    }
  }
}

void select_two(const int32_t* keys, int64_t n, int64_t lower, int64_t upper, int32_t* scratch, float values[2]) {
  const int64_t above = n - 1 - upper, rank = lower > above ? lower : above;
  int64_t groups = 16;  // whole vectors on every level
  while (groups < 4 * (rank + 1) && groups < kMostGroups) groups *= 2;
  int32_t found[2];
  if (rank <= kMostRank && n >= groups) {
    int32_t low[kMostGroups], high[kMostGroups];
    group_minima(keys, n, groups, low, high);
    found[0] = nth_key(keys, n, 0, lower, low, groups, scratch);
    found[1] = ~nth_key(keys, n, -1, above, high, groups, scratch);
  } else {
    found[0] = nth_by_counting(keys, n, lower);
    found[1] = nth_by_counting(keys, n, upper);
  }
  values[0] = __builtin_bit_cast(float, key_of(found[0]));
  values[1] = __builtin_bit_cast(float, key_of(found[1]));
}

int64_t count_outside(const float* x, int64_t n, float lower, float upper) {
  const F32 low(lower), high(upper);
  I32 count(0);
  for_vectors(n, [&](int64_t i, auto part) {
    const F32 v = part.keep(part.load(x + i), low);  // lanes beyond the end count as inside
    count = count + one_where((v < low) | (v > high));
  });
  return sum_lanes(static_cast<I32::register_type>(count));
}

/// Bit l is set where lane l of the mask is.
#if defined(FP4SIM_ISA_avx512)
inline uint32_t lane_bits(F32Mask m) { return static_cast<uint32_t>(static_cast<__mmask16>(m.data)); }
#elif defined(FP4SIM_ISA_avx2)
inline uint32_t lane_bits(F32Mask m) { return static_cast<uint32_t>(_mm256_movemask_ps(m)); }
#else
inline uint32_t lane_bits(F32Mask m) { return static_cast<uint32_t>(_mm_movemask_ps(m)); }
#endif

int64_t clamp(const float* x, int64_t n, const float* lower, const float* upper, int64_t step, float* yc,
              int32_t* outside) {
  int64_t found = 0;
  F32 low(0.0f), high(0.0f);
  if (step == 0 && n > 0) {
    low = F32(*lower);
    high = F32(*upper);
  }
  for_vectors(n, [&](int64_t i, auto part) {
    if (step != 0) {
      low = part.load(lower + i);
      high = part.load(upper + i);
    }
    const F32 v = part.keep(part.load(x + i), low);
    const F32Mask below_low = v < low;
    const F32Mask above_high = v > high;
    part.store(yc + i, xsimd::select(below_low, low, xsimd::select(above_high, high, v)));
    for (uint32_t bits = lane_bits(below_low | above_high); bits != 0; bits &= bits - 1)
      outside[found++] = static_cast<int32_t>(i) + __builtin_ctz(bits);
  });
  return found;
}

}  // namespace

extern const OccKernels occ_kernels;
const OccKernels occ_kernels = {order_keys, select_two, count_outside, clamp};

}  // namespace fp4sim::simd::FP4SIM_ISA
