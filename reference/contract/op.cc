#include "reference/contract/op.h"

#include <string>

#include "reference/contract/error.h"

namespace fp4sim {

Op parse_op(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i)
    if (name == kOps[i].name) return static_cast<Op>(i);
  throw Error("unknown op `" + std::string(name) + "`");
}

}  // namespace fp4sim
