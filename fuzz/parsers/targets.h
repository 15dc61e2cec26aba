// The parser targets by name, for the replay of golden/corpus: each takes any bytes and returns, or throws what is a
// bug.
#pragma once

#include <string_view>

namespace fp4sim::fuzz {

#define FP4SIM_PARSER_TARGETS(X) \
  X(quant_spec) X(estimator) X(recipe) X(npy) X(safetensors) X(llama2c) X(checkpoint) X(golden) X(case_file) X(vocab)

#define FP4SIM_DECLARE_TARGET(name) void target_##name(std::string_view input);
FP4SIM_PARSER_TARGETS(FP4SIM_DECLARE_TARGET)
#undef FP4SIM_DECLARE_TARGET

}  // namespace fp4sim::fuzz
