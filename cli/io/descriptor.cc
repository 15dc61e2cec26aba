#include "cli/io/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

bool same_file(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  if (::fstat(fd, &opened) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void sync_folder(const std::string& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.valid()) fail_file("open folder", folder);
  // some file systems have no synced folders and answer EINVAL: the rename is then as durable as it can be
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) fail_file("sync folder", folder);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void fail_file(const char* action, const std::string& path) {
  const int code = errno;
  throw Error(fmt::format("cannot {} {}: {}", action, path, std::strerror(code)));
}

OpenedFile open_regular(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) fail_file("open", path);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) fail_file("read", path);
  if (!S_ISREG(info.st_mode)) throw Error(fmt::format("cannot read {}: not a regular file", path));
  return {std::move(descriptor), static_cast<size_t>(info.st_size)};
}

Descriptor open_temporary(const std::string& path) {
  // Another writer may have renamed the opened file before the lock was taken, then the name is opened again.
  for (;;) {
    Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!descriptor.valid()) fail_file("write", path);
    if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0)
      throw Error(fmt::format("cannot write {}: another process is writing it", path));
    if (!same_file(descriptor.get(), path)) continue;
    if (::ftruncate(descriptor.get(), 0) != 0) fail_file("write", path);
    return descriptor;
  }
}

void replace_file(const Descriptor& descriptor, const std::string& temporary, const std::string& path) {
  if (::fsync(descriptor.get()) != 0) fail_file("sync", temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail_file("replace", path);
  sync_folder(folder_of(path));
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace fp4sim::io
