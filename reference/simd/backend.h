// Backend `simd`: xsimd, intrinsics and OpenMP, dispatched at run time over the levels below. Same bits as `scalar`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::simd {

enum class Level { sse2, avx2, avx512, avx512vnni };

const char* to_string(Level level);

/// The levels that this processor and operating system run, ascending; never empty (sse2 is the x86-64 baseline).
std::vector<Level> available_levels();

/// Throws Error for a level that the machine does not have. name() is `simd-<level>`. threads = 0: OpenMP's default.
std::unique_ptr<Backend> make_backend(Level level, int threads = 0);

/// The best available level under the name `simd`.
std::unique_ptr<Backend> make_backend(int threads = 0);

/// The level whose kernels ran last in this process: lets a test see that dispatch did what was asked.
Level last_level_run();

}  // namespace fp4sim::simd
