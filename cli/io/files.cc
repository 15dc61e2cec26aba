#include "cli/io/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

[[noreturn]] void fail(const char* action, const std::string& path) {
  const int code = errno;
  throw Error(fmt::format("cannot {} {}: {}", action, path, std::strerror(code)));
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct OpenedFile {
  Descriptor descriptor;
  size_t size;
};

OpenedFile open_regular(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) fail("open", path);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) fail("read", path);
  if (!S_ISREG(info.st_mode)) throw Error(fmt::format("cannot read {}: not a regular file", path));
  return {std::move(descriptor), static_cast<size_t>(info.st_size)};
}

void read_exactly(int fd, char* to, size_t size, const std::string& path) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(fd, to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    if (n == 0)
      throw Error(fmt::format("cannot read {}: it shrank from {} to {} bytes while being read", path, size, done));
    done += static_cast<size_t>(n);
  }
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path);
    done += static_cast<size_t>(n);
  }
}

bool same_file(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  if (::fstat(fd, &opened) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Opens and locks the temporary name. Another writer may have renamed the opened file before the lock was taken, then
/// the name is opened again.
Descriptor open_temporary(const std::string& path) {
  for (;;) {
    Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!descriptor.valid()) fail("write", path);
    if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0)
      throw Error(fmt::format("cannot write {}: another process is writing it", path));
    if (!same_file(descriptor.get(), path)) continue;
    if (::ftruncate(descriptor.get(), 0) != 0) fail("write", path);
    return descriptor;
  }
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sync_folder(const std::string& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.valid()) fail("open folder", folder);
  // some file systems have no synced folders and answer EINVAL: the rename is then as durable as it can be
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) fail("sync folder", folder);
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
    if (::fsync(descriptor.get()) != 0) fail("sync", temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("replace", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder_of(path));
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
  if (address == MAP_FAILED) fail("map", path);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace fp4sim::io
