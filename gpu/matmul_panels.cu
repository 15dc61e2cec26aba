#include "gpu/matmul_panels.h"

#include "gpu/matmul_triangles.h"
#include "gpu/panel_launch.cuh"

namespace fp4sim::gpu {

void matmul_panels(const Operand& a, const Operand& b, const Epilogue& epilogue, float* y, Context& context,
                   const KnownTriangles& known) {
  if (known.any()) return matmul_triangles(a, b, known, epilogue, y, context);
  launch_panels(a, b, epilogue, y, context);
}

}  // namespace fp4sim::gpu
