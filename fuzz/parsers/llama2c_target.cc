// A llama2.c checkpoint.
#include "cli/io/llama2c.h"

#include "fuzz/parsers/target.h"

FP4SIM_PARSER_TARGET(llama2c) {
  const MemoryFile file(input);
  const io::Llama2cFile model = io::read_llama2c(file.path());
  for (const auto& [name, tensor] : model.tensors)
    require(static_cast<size_t>(element_count(tensor.shape)) * sizeof(float) == tensor.bytes.size(),
            "a tensor holds the bytes of its shape");
}
