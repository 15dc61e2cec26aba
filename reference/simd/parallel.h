// parallel_for over a range with OpenMP: every worker computes under the project's floating-point environment.
// Results never depend on the number of threads: each index is computed wholly by one worker.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "reference/contract/fp_environment.h"
#include "reference/simd/backend.h"

namespace fp4sim::simd {

struct Context {
  Level level;
  int threads;  // ≥ 1
};

/// Calls body(begin, end) on disjoint ranges covering [0, n); each range but the last is a multiple of `grain` long.
/// body must not throw. Small work (n ≤ grain) stays on the calling thread.
template <class Body>
void parallel_for(const Context& context, int64_t n, int64_t grain, Body body) noexcept {
  if (n <= 0) return;
  const int64_t pieces = (n + grain - 1) / grain;
  const int workers = static_cast<int>(std::min<int64_t>(context.threads, pieces));
  if (workers <= 1) {
    body(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(workers)
  {
    const FpEnvironment environment;
    const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t begin = pieces * me / all * grain, end = std::min(n, pieces * (me + 1) / all * grain);
    if (begin < end) body(begin, end);
  }
}

}  // namespace fp4sim::simd
