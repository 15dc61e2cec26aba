// Sylvester-order butterflies for strides 1, 2, 4 …: inside registers where a stride is shorter than a vector.
#include "reference/simd/encode.h"
#include "reference/simd/kernels_hadamard.h"
#include "reference/simd/lanes.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

/// Lane l of the result is lane l xor S of v.
#if defined(FP4SIM_ISA_avx512)
template <int S>
inline F32 partner(F32 v) {
  if constexpr (S == 1) return F32(_mm512_permute_ps(v, 0xB1));
  if constexpr (S == 2) return F32(_mm512_permute_ps(v, 0x4E));
  if constexpr (S == 4) return F32(_mm512_shuffle_f32x4(v, v, 0xB1));
  if constexpr (S == 8) return F32(_mm512_shuffle_f32x4(v, v, 0x4E));
}
#elif defined(FP4SIM_ISA_avx2)
template <int S>
inline F32 partner(F32 v) {
  if constexpr (S == 1) return F32(_mm256_permute_ps(v, 0xB1));
  if constexpr (S == 2) return F32(_mm256_permute_ps(v, 0x4E));
  if constexpr (S == 4) return F32(_mm256_permute2f128_ps(v, v, 1));
}
#else
template <int S>
inline F32 partner(F32 v) {
  if constexpr (S == 1) return F32(_mm_shuffle_ps(v, v, 0xB1));
  if constexpr (S == 2) return F32(_mm_shuffle_ps(v, v, 0x4E));
}
#endif

/// The sign bit in the lanes that take the difference at stride S.
template <int S>
inline I32 difference_signs() {
  alignas(64) int32_t lanes[kF32Width];
  for (int l = 0; l < kF32Width; ++l) lanes[l] = (l & S) != 0 ? static_cast<int32_t>(kF32SignBit) : 0;
  return I32::load_aligned(lanes);
}

/// Butterflies at strides S, 2S … below the vector width: (a + b, a − b) as partner + (±own).
template <int S, int Vectors>
inline void inside_registers(F32 (&v)[Vectors]) {
  if constexpr (S < kF32Width) {
    const I32 signs = difference_signs<S>();
    for (F32& r : v) r = partner<S>(r) + as_f32(as_i32(r) ^ signs);
    inside_registers<2 * S>(v);
  }
}

template <int Vectors>
inline void between_registers(F32 (&v)[Vectors]) {
  for (int stride = 1; stride < Vectors; stride *= 2)
    for (int j = 0; j < Vectors; ++j) {
      if ((j & stride) != 0) continue;
      const F32 a = v[j], b = v[j + stride];
      v[j] = a + b;
      v[j + stride] = a - b;
    }
}

template <int N>
void rows_of(const HadamardPlan& plan, const float* x, int64_t blocks, float* y) {
  constexpr int kVectors = N / kF32Width;
  const F32 factor(plan.factor);
  const auto* signs = reinterpret_cast<const int32_t*>(plan.signs);
  for (int64_t block = 0; block < blocks; ++block, x += N, y += N) {
    F32 v[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      v[i] = F32::load_unaligned(x + i * kF32Width);
      if (!plan.inverse) v[i] = as_f32(as_i32(v[i]) ^ I32::load_unaligned(signs + i * kF32Width));
    }
    inside_registers<1>(v);
    between_registers(v);
    for (int i = 0; i < kVectors; ++i) {
      v[i] = v[i] * factor;
      if (plan.inverse) v[i] = as_f32(as_i32(v[i]) ^ I32::load_unaligned(signs + i * kF32Width));
      v[i].store_unaligned(y + i * kF32Width);
    }
  }
}

template <int N>
void columns_of(const HadamardPlan& plan, const float* x, int64_t stride, int64_t cols, float* y) {
  const F32 factor(plan.factor);
  for_vectors(cols, [&](int64_t c, auto part) {
    F32 v[N];
    for (int j = 0; j < N; ++j) {
      v[j] = part.load(x + j * stride + c);
      if (!plan.inverse) v[j] = as_f32(as_i32(v[j]) ^ I32(static_cast<int32_t>(plan.signs[j])));
    }
    between_registers(v);
    for (int j = 0; j < N; ++j) {
      F32 r = v[j] * factor;
      if (plan.inverse) r = as_f32(as_i32(r) ^ I32(static_cast<int32_t>(plan.signs[j])));
      part.store(y + j * stride + c, r);
    }
  });
}

void rows(const HadamardPlan& plan, const float* x, int64_t blocks, float* y) {
  switch (plan.n) {
    case 16: return rows_of<16>(plan, x, blocks, y);
    case 32: return rows_of<32>(plan, x, blocks, y);
    case 64: return rows_of<64>(plan, x, blocks, y);
    case 128: return rows_of<128>(plan, x, blocks, y);
    default: __builtin_unreachable();
  }
}

void columns(const HadamardPlan& plan, const float* x, int64_t stride, int64_t cols, float* y) {
  switch (plan.n) {
    case 16: return columns_of<16>(plan, x, stride, cols, y);
    case 32: return columns_of<32>(plan, x, stride, cols, y);
    case 64: return columns_of<64>(plan, x, stride, cols, y);
    case 128: return columns_of<128>(plan, x, stride, cols, y);
    default: __builtin_unreachable();
  }
}

}  // namespace

extern const HadamardKernels hadamard_kernels;
const HadamardKernels hadamard_kernels = {rows, columns};

}  // namespace fp4sim::simd::FP4SIM_ISA
