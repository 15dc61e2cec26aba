// For ISA units (*.isa.cc) only: the namespace tag and the xsimd architecture of the level being compiled.
// An ISA unit includes contract facts (plain-data headers), xsimd and intrinsics, no std containers or streams;
// everything it defines lies in fp4sim::simd::FP4SIM_ISA, so that no shared inline function is compiled with a wider
// instruction set.
#pragma once

#include <cstdint>
#include <xsimd/xsimd.hpp>

#ifndef FP4SIM_ISA
#error "isa.h belongs to *.isa.cc units, which CMake compiles once per level"
#endif

namespace fp4sim::simd::FP4SIM_ISA {

#if defined(FP4SIM_ISA_avx512)
using Arch = xsimd::avx512bw;
#elif defined(FP4SIM_ISA_avx2)
using Arch = xsimd::fma3<xsimd::avx2>;
#else
using Arch = xsimd::sse2;
#endif

using F32 = xsimd::batch<float, Arch>;
using F64 = xsimd::batch<double, Arch>;
using I32 = xsimd::batch<int32_t, Arch>;
using U32 = xsimd::batch<uint32_t, Arch>;
inline constexpr int kF32Width = static_cast<int>(F32::size);
inline constexpr int kF64Width = static_cast<int>(F64::size);

/// −x with the sign bit flipped. xsimd's unary minus is 0 − x on AVX-512, which gives +0 for +0: never use it here.
inline F32 negate(F32 x) { return x ^ F32(-0.0f); }
inline F64 negate(F64 x) { return x ^ F64(-0.0); }

}  // namespace fp4sim::simd::FP4SIM_ISA
