// What files.cc and streams.cc share: descriptors, and the opening of regular and of temporary files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace fp4sim::io {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Throws Error "cannot ACTION PATH: why", why from errno.
[[noreturn]] void fail_file(const char* action, const std::string& path);

struct OpenedFile {
  Descriptor descriptor;
  size_t size;
};
/// A regular file for reading; Error where it is missing, unreadable or something else.
OpenedFile open_regular(const std::string& path);

/// Opens and locks the temporary name of a file that is about to be written, empty. Error where another process is
/// writing it.
Descriptor open_temporary(const std::string& path);

/// Syncs, renames the temporary to `path` and syncs the folder.
void replace_file(const Descriptor& descriptor, const std::string& temporary, const std::string& path);

/// "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace fp4sim::io
