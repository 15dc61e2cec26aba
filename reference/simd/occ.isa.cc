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

/// Sum of lanes that hold small counts.
inline int64_t sum_lanes(I32 v) {
  alignas(64) int32_t lanes[kF32Width];
  v.store_aligned(lanes);
  int64_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

inline I32 lane_where(xsimd::batch_bool<int32_t, Arch> condition) { return xsimd::select(condition, I32(1), I32(0)); }

struct Ranks {
  int64_t first, second;
};

/// Numbers of keys ≤ a and ≤ b.
Ranks count_up_to(const int32_t* keys, int64_t n, int32_t a, int32_t b) {
  constexpr int64_t kChunk = int64_t{1} << 30;  // lane counts stay below 2^31
  Ranks total{0, 0};
  const I32 first(a), second(b);
  int64_t i = 0;
  while (n - i >= kF32Width) {
    I32 c0(0), c1(0), d0(0), d1(0);
    const int64_t end = n - i < kChunk ? n : i + kChunk;
    for (; i + 2 * kF32Width <= end; i += 2 * kF32Width) {
      const I32 u = I32::load_unaligned(keys + i), v = I32::load_unaligned(keys + i + kF32Width);
      c0 = c0 + lane_where(u > first);
      d0 = d0 + lane_where(u > second);
      c1 = c1 + lane_where(v > first);
      d1 = d1 + lane_where(v > second);
    }
    if (end - i >= kF32Width) {
      const I32 u = I32::load_unaligned(keys + i);
      c0 = c0 + lane_where(u > first);
      d0 = d0 + lane_where(u > second);
      i += kF32Width;
    }
    total.first += sum_lanes(c0 + c1);
    total.second += sum_lanes(d0 + d1);
  }
  for (; i < n; ++i) {
    total.first += keys[i] > a;
    total.second += keys[i] > b;
  }
  return {n - total.first, n - total.second};
}

/// The middle of lo ≤ hi, rounded down.
inline int32_t middle(int32_t lo, int32_t hi) { return static_cast<int32_t>((static_cast<int64_t>(lo) + hi) >> 1); }

struct KeyPair {
  int32_t first, second;
};

/// Keys of two ranks by bisection: the smallest key k such that more than `rank` keys are ≤ k.
KeyPair select_by_counting(const int32_t* keys, int64_t n, int64_t first_rank, int64_t second_rank, KeyPair low,
                           KeyPair high) {
  while (low.first < high.first || low.second < high.second) {
    const int32_t a = middle(low.first, high.first), b = middle(low.second, high.second);
    const Ranks count = count_up_to(keys, n, a, b);
    (count.first > first_rank ? high.first : low.first) = count.first > first_rank ? a : a + (low.first < high.first);
    (count.second > second_rank ? high.second : low.second) =
        count.second > second_rank ? b : b + (low.second < high.second);
  }
  return {low.first, low.second};
}

void select_two(const int32_t* keys, int64_t n, int64_t lower, int64_t upper, int32_t*, float values[2]) {
  constexpr int32_t kLeast = -0x7FFFFFFF - 1, kMost = 0x7FFFFFFF;
  const KeyPair found = select_by_counting(keys, n, lower, upper, {kLeast, kLeast}, {kMost, kMost});
  values[0] = __builtin_bit_cast(float, key_of(found.first));
  values[1] = __builtin_bit_cast(float, key_of(found.second));
}

int64_t count_outside(const float* x, int64_t n, float lower, float upper) {
  const F32 low(lower), high(upper);
  I32 count(0);
  for_vectors(n, [&](int64_t i, auto part) {
    const F32 v = part.keep(part.load(x + i), low);  // lanes beyond the end count as inside
    count = count + one_where((v < low) | (v > high));
  });
  return sum_lanes(count);
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
    const F32Mask below_low = v<low, above_high = v> high;
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
