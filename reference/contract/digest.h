// Digest of a value's bits with NaN canonical (numerics.md §1): what lockstep and golden files compare.
#pragma once

#include <cstdint>

#include "reference/contract/value_type.h"

namespace fp4sim {

/// Position-dependent 64-bit sum over components: element i with canonical bits c contributes
/// mix(c + (i+1)·0x9E3779B97F4A7C15), mix = the SplitMix64 finalizer; addition wraps, so any order of evaluation gives
/// the same digest. The component index is added to the high 16 bits of i. `parts[k]` points to component k.
uint64_t digest_of(const ValueType& type, const void* const* parts);

/// The bits of one element as compared: NaN becomes the format's canonical NaN.
FP4SIM_HD uint32_t canonical_f32(uint32_t bits) {
  return (bits & kF32MagnitudeMask) > kF32Inf ? kF32CanonicalNaN : bits;
}

}  // namespace fp4sim
