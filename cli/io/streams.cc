#include "cli/io/streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

void read_at(int fd, int64_t offset, std::span<std::byte> to, const std::string& path) {
  for (size_t done = 0; done < to.size();) {
    const ssize_t n = ::pread(fd, to.data() + done, to.size() - done, offset + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("read", path);
    if (n == 0)
      throw Error(fmt::format("cannot read {}: it ends at byte {}", path, offset + static_cast<int64_t>(done)));
    done += static_cast<size_t>(n);
  }
}

void write_at(int fd, int64_t offset, std::span<const std::byte> bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pwrite(fd, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("write", path);
    done += static_cast<size_t>(n);
  }
}

/// The temporary name, unless the name itself is taken by something that a rename cannot replace.
std::string temporary_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    throw Error(fmt::format("cannot write {}: it is a folder", path));
  return path + ".tmp";
}

/// A new file that loses its name at once.
Descriptor open_unnamed(const std::string& folder) {
  std::string name = folder + "/.fp4sim-scratch-XXXXXX";
  Descriptor descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!descriptor.valid()) fail_file("write a scratch file in", folder);
  ::unlink(name.c_str());
  return descriptor;
}

}  // namespace

InputFile::InputFile(const std::string& path)
    : path_(path), file_(open_regular(path)), size_(static_cast<int64_t>(file_.size)) {}

void InputFile::read(int64_t offset, std::span<std::byte> to) const {
  read_at(file_.descriptor.get(), offset, to, path_);
}

OutputFile::OutputFile(const std::string& path)
    : path_(path), temporary_(temporary_of(path)), descriptor_(open_temporary(temporary_)) {}

OutputFile::~OutputFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void OutputFile::write(int64_t offset, std::span<const std::byte> bytes) {
  write_at(descriptor_.get(), offset, bytes, temporary_);
}

void OutputFile::commit() {
  replace_file(descriptor_, temporary_, path_);
  committed_ = true;
}

ScratchFile::ScratchFile(const std::string& folder) : path_(folder + " (scratch)"), descriptor_(open_unnamed(folder)) {}

void ScratchFile::write(int64_t offset, std::span<const std::byte> bytes) {
  write_at(descriptor_.get(), offset, bytes, path_);
}

void ScratchFile::read(int64_t offset, std::span<std::byte> to) const { read_at(descriptor_.get(), offset, to, path_); }

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  if (::stat(a.c_str(), &first) != 0 || ::stat(b.c_str(), &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace fp4sim::io
