// Row sums of whole tensors, flattened: many warps share one long row.
#pragma once

#include <vector>

#include "gpu/launch.h"

namespace fp4sim::gpu {

struct FlatRow {
  const float* x;
  int64_t n;
};

enum class Term { element, square };  // rowsum(x) or rowsum(x·x)

/// sums[t] = the row sum of rows[t] in the order of numerics.md §7; +0 for n = 0.
void flat_sums(Context& context, const std::vector<FlatRow>& rows, Term term, float* sums);

}  // namespace fp4sim::gpu
