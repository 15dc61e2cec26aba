// The golden files: lines of one op, and the training runs in JSON.
#include "fuzz/golden_files.h"
#include "fuzz/parsers/target.h"

FP4SIM_PARSER_TARGET(golden) {
  const MemoryFile file(input);
  accept_error([](std::string_view path) { read_golden_lines(std::string(path)); }, file.path());
  read_golden_runs(file.path());
}
