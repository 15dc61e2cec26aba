// Files larger than memory: reading and writing pieces at any position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cli/io/descriptor.h"

namespace fp4sim::io {

/// A regular file that is read piece by piece.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  /// Fills `to` with the bytes at `offset`. Error where the file ends before.
  void read(int64_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  OpenedFile file_;
  int64_t size_;
};

/// A file that is written piece by piece, in any order, and appears under its name on commit: written to `path`.tmp in
/// the same folder, synced, renamed. Without commit nothing remains. A folder under that name is an Error at once.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  const std::string& path() const { return path_; }
  void write(int64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  std::string path_, temporary_;
  Descriptor descriptor_;
  bool committed_ = false;
};

/// A file without a name that vanishes with the object or the process.
class ScratchFile {
 public:
  /// In `folder`, whose file system takes the bytes.
  explicit ScratchFile(const std::string& folder);
  void write(int64_t offset, std::span<const std::byte> bytes);
  void read(int64_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;  // for messages
  Descriptor descriptor_;
};

/// True if both names lead to the same existing file.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace fp4sim::io
