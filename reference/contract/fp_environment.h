// Every backend entry and every OpenMP worker computes under MXCSR 0x1F80: round to nearest even, no flush to zero,
// all exceptions masked (architecture.md: a library linked with -Ofast was seen to leave flush-to-zero on).
#pragma once

#include <xmmintrin.h>

namespace fp4sim {

class FpEnvironment {
 public:
  FpEnvironment() : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~FpEnvironment() {
    // Exception flags raised meanwhile are not restored into the caller's register.
    if (saved_ != kDefault) _mm_setcsr(saved_);
  }
  FpEnvironment(const FpEnvironment&) = delete;
  FpEnvironment& operator=(const FpEnvironment&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1F80;
  unsigned saved_;
};

}  // namespace fp4sim
