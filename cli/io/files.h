// Files as bytes: whole reads, read-only maps, and writes that are either complete or absent.
// Every error names the file in one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fp4sim::io {

/// The bytes of a regular file. Throws Error where it is missing, unreadable or not a file.
std::vector<std::byte> read_file(const std::string& path);
/// The bytes of a regular file as text, unchanged.
std::string read_text_file(const std::string& path);

/// Replaces the file with the pieces, one after the other: written to `path`.tmp in the same folder, synced, renamed,
/// and the folder synced. At every moment `path` holds the old or the new content, whole. The temporary name is locked
/// while it is written: a second writer at the same time gets an Error.
void write_file_atomic(const std::string& path, std::span<const std::span<const std::byte>> pieces);
void write_file_atomic(const std::string& path, std::string_view text);

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// A read-only map of a regular file; pages are read when they are touched.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fp4sim::io
