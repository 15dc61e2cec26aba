// Binary64 functions for tables, schedules and initial weights (numerics.md §8): fixed algorithms from
// basic operations, the same bits on every machine. Not for tensors: each backend has its own exp and log.
#pragma once

#include <cstdint>

namespace fp4sim::host_math {

/// e^x by coefficients.h; 0 below −745.2, +Inf above 709.8.
double exp64(double x);
/// Natural logarithm by coefficients.h.
double log64(double x);
/// sin and cos for |x| < 2^20 radians; throws Error beyond.
double sin64(double x);
double cos64(double x);
/// base^exponent = exp64(exponent·log64(base)), base > 0; exact 1 for exponent 0.
double pow64(double base, double exponent);

/// Standard normal number i of a stream: Box–Muller on Philox words (r0, r1) of counter (i/2, stream, 0):
/// u = (r0 + 1)·2^-32, v = r1·2^-32; sqrt(−2·log64(u)) · cos64 (i even) or sin64 (i odd) of fl64(2π·v).
double normal64(uint64_t seed, uint32_t stream, int64_t i);

/// Four Philox4x32-10 words for a counter and key.
struct Words {
  uint32_t w[4];
};
Words philox(uint64_t seed, uint64_t counter, uint32_t stream, uint32_t step);

}  // namespace fp4sim::host_math
