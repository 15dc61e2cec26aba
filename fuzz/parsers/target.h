// What every parser target has in common: the input of a file-based parser as a file, and what counts as a good
// outcome. FP4SIM_PARSER_TARGET(name) { … } defines `void target_<name>(std::string_view input)`; in the libFuzzer
// build (one program a target) it is also the entry point. Good: the function returns or throws fp4sim::Error.
// Everything else, other exceptions, crashes, hangs and memory beyond 1 GiB, is a bug of the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "reference/contract/error.h"

namespace fp4sim::fuzz {

/// A file in memory that holds the bytes, under a path of this process; gone with the object.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;

 private:
  int descriptor_;
};

/// A safetensors container around the input: the text up to the last '}' is the header, its length is put in front.
/// Lets a fuzzer change the header without knowing that the length has to follow.
std::string with_header_length(std::string_view input);

/// Throws std::logic_error, which is no good outcome: a property of a parsed value does not hold.
void require(bool holds, const char* property);

/// Calls parse(input) and takes fp4sim::Error as an answer.
template <class Parse>
void accept_error(const Parse& parse, std::string_view input) {
  try {
    parse(input);
  } catch (const Error&) {
    // the parser refused the input, as it should
  }
}

}  // namespace fp4sim::fuzz

#ifdef FP4SIM_LIBFUZZER
#define FP4SIM_FUZZER_ENTRY(name)                                             \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {   \
    fp4sim::fuzz::target_##name({reinterpret_cast<const char*>(data), size}); \
    return 0;                                                                 \
  }
#else
#define FP4SIM_FUZZER_ENTRY(name)
#endif

#define FP4SIM_PARSER_TARGET(name)                                                \
  namespace fp4sim::fuzz {                                                        \
  static void try_##name(std::string_view input);                                 \
  void target_##name(std::string_view input) { accept_error(try_##name, input); } \
  }                                                                               \
  FP4SIM_FUZZER_ENTRY(name)                                                       \
  static void fp4sim::fuzz::try_##name(std::string_view input)
