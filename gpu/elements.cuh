// A chain of element-wise ops as a small program that one kernel runs on elements in registers: each instruction is one
// op with its own rounding, in the order of the nodes, and stores its result where somebody else reads it.
#pragma once

#include "gpu/activations.cuh"
#include "gpu/arithmetic.cuh"
#include "gpu/launch.h"

namespace fp4sim::gpu {

constexpr int kMostInstructions = 12, kMostOperands = 3;

enum class Code : int { add, mul, scale, round_bf16, keep, silu, silu_grad, slope_silu, gelu, gelu_grad, slope_gelu };

struct Instruction {
  Code code;
  int operand;   // index of the other input; −1: none
  float factor;  // of scale
  float* store;  // nullptr: stays in the register
  uint16_t* store_bf16;
};

/// The other input of an add, mul or gradient; element i of the chain takes element i mod period.
struct ElementOperand {
  const float* x;
  int64_t period;
};

struct ElementProgram {
  const float* x;          // the first node's input,
  const uint16_t* x_bf16;  // as bf16
  int64_t n;
  int count, operands;
  Instruction list[kMostInstructions];
  ElementOperand others[kMostOperands];
};

/// v[k] = F(v[k]), the quick ways side by side without branches.
template <class F, int N>
__device__ inline void activate(float (&v)[N]) {
  QuickValue quick[N];
  bool sure = true;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    quick[k] = F::quick(v[k]);
    sure = sure & quick[k].sure;
  }
  // One copy of the long way, which takes an element by its number.
#pragma unroll 1
  for (int redo = 0; !sure && redo < N; ++redo) {
    float x = 0;
    bool is_sure = true;
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k == redo) x = v[k], is_sure = quick[k].sure;
    if (is_sure) continue;
    const float value = F::exact(x);
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k == redo) quick[k].value = value;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = quick[k].value;
}

/// v = v·slope(x), v = factor·slope(v).
template <class Slope, int N>
__device__ inline void times(const float (&x)[N], float (&v)[N]) {
  float slope[N];
#pragma unroll
  for (int k = 0; k < N; ++k) slope[k] = x[k];
  activate<Slope>(slope);
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = v[k] * slope[k];
}
template <class Slope, int N>
__device__ inline void slope_times(const float (&factor)[N], float (&v)[N]) {
  activate<Slope>(v);
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = factor[k] * v[k];
}

/// One instruction on N elements with their other inputs.
template <int N>
__device__ inline void apply(const Instruction& instruction, const float (&other)[N], float (&v)[N]) {
  const auto each = [&v](auto f) {
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = f(k);
  };
  switch (instruction.code) {
    case Code::add: return each([&](int k) { return v[k] + other[k]; });
    case Code::mul: return each([&](int k) { return v[k] * other[k]; });
    case Code::scale: return each([&](int k) { return v[k] * instruction.factor; });
    case Code::round_bf16: return each([&](int k) { return f32_of_bf16(bf16_of(v[k])); });
    case Code::keep: return;
    case Code::silu: return activate<Silu>(v);
    case Code::silu_grad: return times<SiluSlope>(other, v);
    case Code::slope_silu: return slope_times<SiluSlope>(other, v);
    case Code::gelu: return activate<Gelu>(v);
    case Code::gelu_grad: return times<GeluSlope>(other, v);
    case Code::slope_gelu: return slope_times<GeluSlope>(other, v);
  }
}

/// The program on N elements: others[o] are their elements of operand o; store(instruction, v) takes what an
/// instruction gives.
template <int N, class Store>
__device__ inline void run(const ElementProgram& program, const float (&others)[kMostOperands][N], float (&v)[N],
                           const Store& store) {
  for (int i = 0; i < program.count; ++i) {
    const Instruction& instruction = program.list[i];
    float other[N];
#pragma unroll
    for (int k = 0; k < N; ++k)
      other[k] = instruction.operand == 0 ? others[0][k] : instruction.operand == 1 ? others[1][k] : others[2][k];
    apply(instruction, other, v);
    if (instruction.store != nullptr || instruction.store_bf16 != nullptr) store(instruction, v);
  }
}

}  // namespace fp4sim::gpu
