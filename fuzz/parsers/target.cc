#include "fuzz/parsers/target.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace fp4sim::fuzz {

MemoryFile::MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fp4sim-parser", MFD_CLOEXEC)) {
  require(descriptor_ >= 0, "memfd_create works");
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(descriptor_, bytes.data() + at, bytes.size() - at);
    require(written > 0, "a file in memory takes all bytes");
    at += static_cast<size_t>(written);
  }
}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

std::string with_header_length(std::string_view input) {
  const size_t brace = input.rfind('}');
  const uint64_t length = brace == std::string_view::npos ? 0 : brace + 1;
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(input);
}

void require(bool holds, const char* property) {
  if (!holds) throw std::logic_error(std::string("property violated: ") + property);
}

}  // namespace fp4sim::fuzz
