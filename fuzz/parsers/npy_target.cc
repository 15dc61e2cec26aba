// A .npy file.
#include "cli/io/npy.h"

#include "fuzz/parsers/target.h"

FP4SIM_PARSER_TARGET(npy) {
  const MemoryFile file(input);
  const io::HostTensor tensor = io::read_npy(file.path());
  const auto count = io::checked_element_count(tensor.shape);
  require(count && static_cast<size_t>(*count * io::file_type_bytes(tensor.type)) == tensor.bytes.size(),
          "a tensor holds the bytes of its shape");
}
