// Quotients by one divisor without a division each.
#pragma once

#include "gpu/arithmetic.cuh"

namespace fp4sim::gpu {

/// Divides by s > 0 for an encoder whose least step is not below 2^-16: fl(x/s) wherever |x/s| is not far below that,
/// something as small and with the sign of x elsewhere.
class Divisor {
 public:
  FP4SIM_HD explicit Divisor(float s) : divisor_(s), reciprocal_(1.0f / s), quick_(s >= 0x1p-90f && s <= 0x1p+90f) {}

  FP4SIM_HD bool quick() const { return quick_; }

  /// The quotient where quick(). Two steps of Newton from x·fl(1/s): the first quotient is off by at most two units in
  /// the last place, the second is a neighbour of x/s, and its remainder, exact in binary32, rounds the third correctly
  /// (Markstein).
  FP4SIM_HD float quick_quotient(float x) const {
    const float first = x * reciprocal_;
    const float second = fma32(reciprocal_, fma32(-divisor_, first, x), first);
    const float third = fma32(reciprocal_, fma32(-divisor_, second, x), second);
    return float_of(magnitude_bits(third) | (bits_of(x) & kF32SignBit));
  }
  FP4SIM_HD float slow_quotient(float x) const { return x / divisor_; }
  FP4SIM_HD float quotient_of(float x) const { return quick_ ? quick_quotient(x) : slow_quotient(x); }

 private:
  float divisor_, reciprocal_;
  bool quick_;
};

}  // namespace fp4sim::gpu
