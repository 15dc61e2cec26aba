// A safetensors file: header, then every tensor's bytes.
#include "cli/io/safetensors.h"

#include "fuzz/parsers/target.h"

namespace fp4sim::fuzz {
namespace {

void read_all(std::string_view bytes) {
  const MemoryFile file(bytes);
  const io::SafetensorsFile tensors(file.path());
  for (const io::TensorEntry& entry : tensors.tensors()) {
    const io::HostTensor tensor = tensors.read(entry.name);
    require(static_cast<int64_t>(tensor.bytes.size()) == entry.end - entry.begin, "a tensor holds its range");
  }
}

}  // namespace
}  // namespace fp4sim::fuzz

FP4SIM_PARSER_TARGET(safetensors) {
  accept_error(read_all, with_header_length(input));
  read_all(input);
}
