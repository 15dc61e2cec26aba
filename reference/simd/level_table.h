// How baseline code reaches ISA kernels: each topic header (kernels_*.h) declares one struct of function pointers over
// plain data and one constant of it per level; `pick` selects. Kernels work on a range; threads are the op layer's job.
#pragma once

#include "reference/simd/backend.h"

/// Declares `Type name` in every level's namespace and `const Type& pick_name(Level)`. Used inside fp4sim::simd.
/// avx512vnni uses the avx512 kernels except where a topic says otherwise.
#define FP4SIM_LEVEL_TABLE(Type, name)             \
  namespace sse2 {                                 \
  extern const Type name;                          \
  }                                                \
  namespace avx2 {                                 \
  extern const Type name;                          \
  }                                                \
  namespace avx512 {                               \
  extern const Type name;                          \
  }                                                \
  inline const Type& pick_##name(Level level) {    \
    switch (level) {                               \
      case Level::sse2: return sse2::name;         \
      case Level::avx2: return avx2::name;         \
      case Level::avx512:                          \
      case Level::avx512vnni: return avx512::name; \
    }                                              \
    return sse2::name;                             \
  }
