// A training state: typed metadata and tensors in a safetensors file.
#include "cli/train/checkpoint.h"

#include "fuzz/parsers/target.h"

namespace fp4sim::fuzz {
namespace {

void load(std::string_view bytes) {
  const MemoryFile file(bytes);
  const train::TrainingState state = train::load_checkpoint(file.path());
  train::require_parameters(state.model, state.parameters, "the state");
}

}  // namespace
}  // namespace fp4sim::fuzz

FP4SIM_PARSER_TARGET(checkpoint) {
  accept_error(load, with_header_length(input));
  load(input);
}
