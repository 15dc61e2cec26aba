// Products of the fp32 rule of which triangles are known: attention.
#pragma once

#include "gpu/matmul_panels.h"

namespace fp4sim::gpu {

/// Writes y (matrices, a.rows, b.rows) = a·bᵀ, k > 0, finished by the epilogue, but for outputs that are not read.
void matmul_triangles(const Operand& a, const Operand& b, const KnownTriangles& known, const Epilogue& epilogue,
                      float* y, Context& context);

}  // namespace fp4sim::gpu
