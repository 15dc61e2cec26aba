// The fp32 rule of numerics.md §7: fma chains of ascending k in panels of 1024, panels added in ascending order.
#pragma once

#include "gpu/launch.h"
#include "gpu/product.cuh"

namespace fp4sim::gpu {

/// What is known of the triangles of a product's matrices besides its operands; all false: nothing.
struct KnownTriangles {
  bool a_lower = false;       // a[i][k] is +0 where k > i
  bool a_upper = false;       // a[i][k] is +0 where k < i
  bool upper_unread = false;  // outputs [i][j] with j > i may stay unwritten

  FP4SIM_HD bool any() const { return a_lower || a_upper || upper_unread; }
};

/// Writes y (matrices, a.rows, b.rows) = a·bᵀ, k > 0, finished by the epilogue.
void matmul_panels(const Operand& a, const Operand& b, const Epilogue& epilogue, float* y, Context& context,
                   const KnownTriangles& known = {});

/// The same for operands in bf16, which are widened on their way into the multiprocessors.
void matmul_panels(const Bf16Operand& a, const Bf16Operand& b, const Epilogue& epilogue, float* y, Context& context);

}  // namespace fp4sim::gpu
