// A .case file: the node and the values that replay a mismatch.
#include "fuzz/case_file.h"

#include "fuzz/parsers/target.h"

namespace fp4sim::fuzz {
namespace {

void load(std::string_view bytes) {
  const MemoryFile file(bytes);
  const Case c = load_case(file.path());
  describe(c);
  node_of(c);
}

}  // namespace
}  // namespace fp4sim::fuzz

FP4SIM_PARSER_TARGET(case_file) {
  accept_error(load, with_header_length(input));
  load(input);
}
