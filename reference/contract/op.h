// The op table: id, name and arity of every row of op.def.
#pragma once

#include <cstdint>
#include <string_view>

namespace fp4sim {

enum class Op : uint8_t {
#define FP4SIM_OP(id, inputs, outputs) id,
#include "reference/contract/op.def"
#undef FP4SIM_OP
};

struct OpRow {
  const char* name;
  const char* inputs;  // comma separated; `?` optional, `*` repeated
  const char* outputs;
};

inline constexpr OpRow kOps[] = {
#define FP4SIM_OP(id, inputs, outputs) {#id, inputs, outputs},
#include "reference/contract/op.def"
#undef FP4SIM_OP
};
inline constexpr int kOpCount = static_cast<int>(sizeof(kOps) / sizeof(kOps[0]));

constexpr const char* op_name(Op op) { return kOps[static_cast<int>(op)].name; }

/// The op of a name; throws Error for an unknown one.
Op parse_op(std::string_view name);

}  // namespace fp4sim
