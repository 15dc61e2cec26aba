#include "gpu/matmul_panels.h"
#include "gpu/panel_launch.cuh"

namespace fp4sim::gpu {

void matmul_panels(const Bf16Operand& a, const Bf16Operand& b, const Epilogue& epilogue, float* y, Context& context) {
  launch_panels(a, b, epilogue, y, context);
}

}  // namespace fp4sim::gpu
