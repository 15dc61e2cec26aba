// Packed e2m1 codes of a run with given factors.
#include "reference/simd/e2m1_encode.h"

namespace fp4sim::simd::FP4SIM_ISA {

#if defined(FP4SIM_ISA_sse2)

int64_t encode_e2m1(const EncodeJob&, const float*, int64_t, BlockFactors, uint8_t*) { return 0; }

#else

namespace {

/// Encodes whole groups; value(i) gives y of the vector of elements that begins at i.
template <class Value>
inline int64_t encode_groups(int64_t n, uint8_t* codes, const Value& value) {
  const int64_t end = n / kGroupElements * kGroupElements;
  for (int64_t i = 0; i < end; i += kGroupElements) encode_group(i, value, codes);
  return end;
}

}  // namespace

int64_t encode_e2m1(const EncodeJob& job, const float* x, int64_t n, BlockFactors f, uint8_t* codes) {
  if (!encodes_e2m1(job)) return 0;
  const auto load = [x](int64_t i) { return F32::load_unaligned(x + i); };
  if (f.block == 0)
    return encode_groups(n, codes, [=](int64_t i) { return load(i) * F32::load_unaligned(f.factors + i); });
  if (f.block == 16) return encode_groups(n, codes, [=](int64_t i) { return load(i) * F32(f.factors[i / 16]); });
  if (f.block == 32) return encode_groups(n, codes, [=](int64_t i) { return load(i) * F32(f.factors[i / 32]); });
  if (f.block >= n) return encode_groups(n, codes, [=](int64_t i) { return load(i) * F32(f.factors[0]); });
  if (f.block % 16 != 0) return 0;
  return encode_groups(n, codes, [=](int64_t i) { return load(i) * F32(f.factors[i / f.block]); });
}

#endif

}  // namespace fp4sim::simd::FP4SIM_ISA
