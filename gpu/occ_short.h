// OCC of vectors that one warp holds in registers: a single pass over Y (numerics.md §6).
#pragma once

#include "gpu/occ_bounds.h"
#include "gpu/occ_entries.cuh"

namespace fp4sim::gpu {

/// Entries before their place in the csr is known: vector v owns the places from v·per_vector on.
struct EntrySlots {
  int32_t* positions;
  float* residuals;
  int64_t per_vector;
};

/// True if vectors of a length, one after the other, are taken.
bool occ_short_takes(int64_t length);

/// Writes Yc of vectors that lie one after the other; with `entries` also their entries into slots, and row_ptr[v + 1]
/// gets their number; zeros without.
EntrySlots clamp_short_vectors(const float* y, const Vectors& vectors, double alpha, bool entries, float* yc,
                               int64_t* row_ptr, Context& context);

/// Moves entries from their slots to their places; row_ptr is complete.
void gather_entries(const EntrySlots& slots, const CsrView& csr, const WideResiduals& wide, Context& context);

}  // namespace fp4sim::gpu
