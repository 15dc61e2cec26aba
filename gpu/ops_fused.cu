// Chains of element-wise ops as one kernel, and two quantizations that give the same bytes as one.
#include "gpu/element_chains.h"
#include "gpu/fusions.h"
#include "gpu/map.cuh"
#include "gpu/quantize_both.h"

namespace fp4sim::gpu {
namespace {

// ---- elements ----

__device__ inline void load_four_of(const ElementOperand& operand, int64_t i, int64_t n, float (&v)[kVector]) {
  const int64_t at = operand.period == n ? i : i - quotient(i, operand.period) * operand.period;
  if (operand.period % kVector == 0 && i + kVector <= n) {
    const float4 f = *reinterpret_cast<const float4*>(operand.x + at);
    v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
    return;
  }
  int64_t from = at;
  for (int k = 0; k < kVector; ++k) {
    v[k] = i + k < n ? operand.x[from] : 0.0f;
    if (++from == operand.period) from = 0;
  }
}

__device__ inline void load_bf16(const uint16_t* x, int64_t i, int64_t n, float (&v)[kVector]) {
  if (i + kVector <= n) {
    const uint2 u = *reinterpret_cast<const uint2*>(x + i);
    v[0] = float_of(u.x << 16), v[1] = float_of(u.x & 0xFFFF0000u);
    v[2] = float_of(u.y << 16), v[3] = float_of(u.y & 0xFFFF0000u);
    return;
  }
  for (int k = 0; k < kVector; ++k) v[k] = i + k < n ? f32_of_bf16(x[i + k]) : 0.0f;
}

__device__ inline void store_bf16(uint16_t* y, int64_t i, int64_t n, const float (&v)[kVector]) {
  const auto pair = [&v](int k) { return uint32_t{bf16_of(v[k])} | uint32_t{bf16_of(v[k + 1])} << 16; };
  if (i + kVector <= n) {
    *reinterpret_cast<uint2*>(y + i) = make_uint2(pair(0), pair(2));
    return;
  }
  for (int k = 0; k < kVector; ++k)
    if (i + k < n) y[i + k] = bf16_of(v[k]);
}

__global__ void elements_kernel(ElementProgram program) {
  const int64_t i = thread_index() * kVector, n = program.n;
  if (i >= n) return;
  float v[kVector], others[kMostOperands][kVector] = {};
  if (program.x_bf16 != nullptr)
    load_bf16(program.x_bf16, i, n, v);
  else
    load_four_of({program.x, n}, i, n, v);
#pragma unroll
  for (int o = 0; o < kMostOperands; ++o)
    if (o < program.operands) load_four_of(program.others[o], i, n, others[o]);
  run(program, others, v, [&](const Instruction& instruction, const float(&result)[kVector]) {
    if (instruction.store != nullptr)
      store_four(instruction.store, i, n, {{result[0], result[1], result[2], result[3]}});
    if (instruction.store_bf16 != nullptr) store_bf16(instruction.store_bf16, i, n, result);
  });
}

bool starts_elements(const NodeCall& first) { return runs_as_element(first) && count_in(first, 0) > 0; }

bool complete_elements(const Chain& chain) { return chain.nodes.size() >= 2; }

void launch_elements(std::span<const Chain> chains, Context& context) {
  const ElementProgram program = program_of(chains[0], chains[0].nodes.size());
  context.launch(elements_kernel, context.per_item(ceil_div(program.n, kVector)), program);
}

// ---- two quantizations of one tensor ----

bool starts_quantize(const NodeCall& first) { return first.node.op == Op::quantize; }
bool extends_never(const Chain&, const NodeCall&) { return false; }
bool always_complete(const Chain&) { return true; }
/// bf16 numbers join what reads them instead.
bool joins_quantize(const Chain& a, const Chain& b) {
  return !is_bf16(a.nodes[0].out[0].type) && quantize_both_takes(a.nodes[0].call(), b.nodes[0].call());
}
void launch_quantize(std::span<const Chain> chains, Context& context) {
  quantize_both(chains[0].nodes[0].call(), chains[1].nodes[0].call(), context);
}

}  // namespace

const Fusion kQuantizeBoth{.name = "both",
                           .in_place = false,
                           .starts = starts_quantize,
                           .extends = extends_never,
                           .complete = always_complete,
                           .together = 2,
                           .joins = joins_quantize,
                           .launch = launch_quantize};
const Fusion kElements{.name = "elements",
                       .in_place = true,
                       .starts = starts_elements,
                       .extends = extends_elements,
                       .complete = complete_elements,
                       .launch = launch_elements};

}  // namespace fp4sim::gpu
