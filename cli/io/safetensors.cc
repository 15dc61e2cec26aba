#include "cli/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

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

void write_safetensors(const std::string& path, const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  // widest elements first: every tensor then starts at a multiple of its own element size, without holes
  std::vector<const std::pair<const std::string, HostTensor>*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return file_type_bytes(a->second.type) > file_type_bytes(b->second.type);
  });
  std::vector<std::span<const std::byte>> pieces(2);
  size_t position = 0;
  for (const auto* item : order) {
    const HostTensor& tensor = item->second;
    const auto count = checked_element_count(tensor.shape);
    if (!count || static_cast<size_t>(*count * file_type_bytes(tensor.type)) != tensor.bytes.size())
      throw Error(fmt::format("cannot write {}: tensor '{}' {} does not hold {} bytes", path, item->first,
                              to_string(tensor.shape), tensor.bytes.size()));
    json[item->first] = {{"dtype", file_type_name(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {position, position + tensor.bytes.size()}}};
    position += tensor.bytes.size();
    pieces.push_back(tensor.bytes);
  }
  std::string header;
  try {
    header = json.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("cannot write {}: a tensor name or metadata text is not valid UTF-8", path));
  }
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  pieces[0] = std::as_bytes(std::span(&length, 1));
  pieces[1] = bytes_of(header);
  write_file_atomic(path, pieces);
}

}  // namespace fp4sim::io
