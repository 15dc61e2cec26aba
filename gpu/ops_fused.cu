// Chains of element-wise ops as one kernel, and those that end in a layernorm.
#include "gpu/element_chains.h"
#include "gpu/fusions.h"
#include "gpu/layernorm.cuh"
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
  run<false>(program, others, v, [&](const Instruction& instruction, const float(&result)[kVector]) {
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

// ---- elements and layernorm ----

constexpr int64_t kNormHeld = 384;  // elements of a row: three other inputs beside it stay in registers

/// A warp for each row of s.n elements: the program, sum o adding operand o, then layernorm.
template <int kPer, int kOperands>
__global__ void __launch_bounds__(kRowThreads)
    elements_and_norm_kernel(ElementProgram program, const float* g, const float* b, float* ys, NormRows s) {
  using Values = typename HeldRow<kPer>::Values;
  const int64_t index = warp_index();
  if (index >= s.rows) return;
  const HeldRow<kPer> row(s.n);
  const int64_t first = index * s.n;
  Values x = row.values(program.x + first), others[kOperands];
#pragma unroll
  for (int o = 0; o < kOperands; ++o) {
    const int64_t period = program.others[o].period, groups = quotient(first, period);
    others[o] = row.values(program.others[o].x + (first - groups * period));
  }
#pragma unroll
  for (int o = 0; o < kOperands; ++o) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) x[k] = x[k] + others[o][k];
    float* sums = program.list[o].store;
    if (sums != nullptr) row.each([&](int k) { sums[first + row.at(k)] = x[k]; });
  }
  const Values gains = row.values(g), shifts = row.values(b);  // all before any of y is stored, else one by one
  float* y = ys + first;
  const Centered xh = center_row(row, x, s);
  row.each([&](int k) { y[row.at(k)] = fma32(xh(x[k]), gains[k], shifts[k]); });
}

/// Residual sums: f32 throughout, other inputs of whole rows, rows that a warp holds.
bool starts_norm(const NodeCall& first) {
  return first.node.op == Op::add && first.in[0].type.dtype == DType::f32 && count_in(first, 0) > 0;
}

bool extends_norm(const Chain& chain, const NodeCall& next) {
  if (next.node.op != Op::layernorm || next.node.inputs[0] != chain.nodes.back().node->outputs[0]) return false;
  const int64_t n = matrix_view(next.in[0].type.shape).cols;
  if (n > kNormHeld) return false;
  for (const BoundNode& node : chain.nodes) {
    if (node.node->op != Op::add) return false;
    for (const Tensor& in : node.in)
      if (element_count(in.type.shape) % n != 0) return false;
  }
  return other_inputs(chain) <= kMostOperands;
}

bool complete_norm(const Chain& chain) { return chain.nodes.back().node->op == Op::layernorm; }

void launch_norm(std::span<const Chain> chains, Context& context) {
  const Chain& chain = chains[0];
  const NodeCall norm = chain.nodes.back().call();
  const NormRows s = norm_rows(norm, 0);
  const ElementProgram program = program_of(chain, chain.nodes.size() - 1);
  const auto launch = [&]<int kPer, int kOperands>(std::integral_constant<int, kPer>,
                                                   std::integral_constant<int, kOperands>) {
    context.launch(elements_and_norm_kernel<kPer, kOperands>, row_grid(s.rows), program, in_data<float>(norm, 1),
                   in_data<float>(norm, 2), out_data<float>(norm), s);
  };
  const auto with_operands = [&](auto per) {
    static_assert(kMostOperands == 3);
    if (program.operands == 1) return launch(per, std::integral_constant<int, 1>());
    if (program.operands == 2) return launch(per, std::integral_constant<int, 2>());
    launch(per, std::integral_constant<int, 3>());
  };
  if (s.n <= 128) return with_operands(std::integral_constant<int, 4>());
  if (s.n <= 256) return with_operands(std::integral_constant<int, 8>());
  with_operands(std::integral_constant<int, 12>());
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
const Fusion kElementsAndNorm{.name = "elements and norm",
                              .from = &kElements,
                              .in_place = true,
                              .starts = starts_norm,
                              .extends = extends_norm,
                              .complete = complete_norm,
                              .launch = launch_norm};

}  // namespace fp4sim::gpu
