#include "cli/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/contract/error.h"

namespace fp4sim::io {

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), header_(parse_safetensors_header(file_.bytes(), path)) {}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto& all = header_.tensors;
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const TensorEntry& entry, std::string_view key) { return entry.name < key; });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

const TensorEntry& SafetensorsFile::entry(std::string_view name) const {
  const TensorEntry* found = find(name);
  if (found == nullptr) throw Error(fmt::format("{}: no tensor named '{}'", path(), name));
  return *found;
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const TensorEntry& found = entry(name);
  return file_.bytes().subspan(static_cast<size_t>(header_.data_offset + found.begin),
                               static_cast<size_t>(found.end - found.begin));
}

HostTensor SafetensorsFile::read(std::string_view name) const {
  const TensorEntry& found = entry(name);
  const auto source = bytes(name);
  return {found.type, found.shape, {source.begin(), source.end()}};
}

}  // namespace fp4sim::io
