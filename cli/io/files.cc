#include "cli/io/files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/io/descriptor.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

void read_exactly(int fd, char* to, size_t size, const std::string& path) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(fd, to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("read", path);
    if (n == 0)
      throw Error(fmt::format("cannot read {}: it shrank from {} to {} bytes while being read", path, size, done));
    done += static_cast<size_t>(n);
  }
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("write", path);
    done += static_cast<size_t>(n);
  }
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path) {
  const OpenedFile file = open_regular(path);
  std::vector<std::byte> bytes(file.size);
  read_exactly(file.descriptor.get(), reinterpret_cast<char*>(bytes.data()), file.size, path);
  return bytes;
}

std::string read_text_file(const std::string& path) {
  const OpenedFile file = open_regular(path);
  std::string text(file.size, '\0');
  read_exactly(file.descriptor.get(), text.data(), file.size, path);
  return text;
}

void write_file_atomic(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  const std::string temporary = path + ".tmp";
  const Descriptor descriptor = open_temporary(temporary);
  try {
    for (const auto piece : pieces) write_all(descriptor.get(), piece, temporary);
    replace_file(descriptor, temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void write_file_atomic(const std::string& path, std::string_view text) {
  const std::span<const std::byte> piece = bytes_of(text);
  write_file_atomic(path, std::span(&piece, 1));
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const OpenedFile file = open_regular(path);
  size_ = file.size;
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (address == MAP_FAILED) fail_file("map", path);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace fp4sim::io
