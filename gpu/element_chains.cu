#include "gpu/element_chains.h"

namespace fp4sim::gpu {
namespace {

/// An op that elements run: its code where the chain comes in as the first and as the second input; −1: not there.
struct ElementRow {
  Op op;
  int as_first, as_second;
  int other;  // the input that has the rest where the chain is the first; −1: none
};
constexpr int code(Code c) { return static_cast<int>(c); }
constexpr ElementRow kElementRows[] = {
    {Op::add, code(Code::add), code(Code::add), 1}, {Op::mul, code(Code::mul), code(Code::mul), 1},
    {Op::scale, code(Code::scale), -1, -1},         {Op::cast, code(Code::keep), -1, -1},
    {Op::quantize, code(Code::keep), -1, -1},       {Op::dequantize, code(Code::keep), -1, -1},
    {Op::silu, code(Code::silu), -1, -1},           {Op::silu_grad, code(Code::silu_grad), code(Code::slope_silu), 1},
    {Op::gelu, code(Code::gelu), -1, -1},           {Op::gelu_grad, code(Code::gelu_grad), code(Code::slope_gelu), 1},
};

const ElementRow* row_of(Op op) {
  for (const ElementRow& row : kElementRows)
    if (row.op == op) return &row;
  return nullptr;
}

/// The input that is the chain; 0 for a first node.
int chain_input(const Chain& chain, const Node& next) {
  const std::vector<ValueId>& outputs = chain.nodes.back().node->outputs;
  return next.inputs[0] == outputs[0] ? 0 : 1;
}

bool reads_other(const ElementRow& row) { return row.other >= 0; }

Instruction instruction_of(const BoundNode& node, int input) {
  const ElementRow& row = *row_of(node.node->op);
  Instruction instruction{static_cast<Code>(input == 0 ? row.as_first : row.as_second), -1, 0.0f, nullptr, nullptr};
  if (node.node->op == Op::scale) instruction.factor = static_cast<float>(node.node->attrs.number("factor"));
  if (is_bf16(node.out[0].type)) instruction.code = Code::round_bf16;
  return instruction;
}

}  // namespace

bool is_bf16(const ValueType& type) {
  if (type.dtype == DType::bf16) return true;
  QuantSpec plain;
  plain.element = kBf16;
  plain.ieee = type.spec.ieee;  // without scales the policy is ieee in any case
  return type.dtype == DType::packed && type.spec == plain;
}

bool runs_as_element(const NodeCall& call) {
  if (row_of(call.node.op) == nullptr) return false;
  if (call.node.op == Op::quantize) return call.in.size() == 1 && is_bf16(call.out[0].type);
  return call.node.op != Op::dequantize || is_bf16(call.in[0].type);
}

bool extends_elements(const Chain& chain, const NodeCall& next) {
  if (!runs_as_element(next) || chain.nodes.size() == kMostInstructions) return false;
  const ElementRow* row = row_of(next.node.op);
  if (other_inputs(chain) + (reads_other(*row) ? 1 : 0) > kMostOperands) return false;
  const int input = chain_input(chain, next.node);
  return input == 0 || (row->as_second >= 0 && count_in(next, 0) == count_in(next, 1));
}

int other_inputs(const Chain& chain) {
  int count = 0;
  for (const BoundNode& node : chain.nodes) count += reads_other(*row_of(node.node->op)) ? 1 : 0;
  return count;
}

ElementProgram program_of(const Chain& chain, size_t count) {
  ElementProgram program{};
  const NodeCall first = chain.nodes[0].call();
  program.n = count_in(first, 0);
  if (is_bf16(first.in[0].type))
    program.x_bf16 = in_data<uint16_t>(first, 0);
  else
    program.x = in_data<float>(first, 0);
  for (size_t k = 0; k < count; ++k) {
    const NodeCall call = chain.nodes[k].call();
    const Chain before{{chain.nodes[k == 0 ? 0 : k - 1]}, {}};
    const int input = k == 0 ? 0 : chain_input(before, call.node);
    Instruction instruction = instruction_of(chain.nodes[k], input);
    if (reads_other(*row_of(call.node.op))) {
      const auto other = static_cast<size_t>(1 - input);
      instruction.operand = program.operands;
      program.others[program.operands++] = {in_data<float>(call, other), count_in(call, other)};
    }
    if (chain.stored[k]) {
      if (is_bf16(call.out[0].type))
        instruction.store_bf16 = out_data<uint16_t>(call);
      else
        instruction.store = out_data<float>(call);
    }
    program.list[program.count++] = instruction;
  }
  return program;
}

}  // namespace fp4sim::gpu
