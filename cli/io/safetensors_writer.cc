// Writing safetensors files, whole or piece by piece.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/io/safetensors.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

/// Writing a byte at the end gives the file its length, whichever pieces come later.
constexpr std::byte kLastByte{0};

std::string header_bytes(const nlohmann::ordered_json& json, const std::string& path) {
  std::string header;
  try {
    header = json.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("cannot write {}: a tensor name or metadata text is not valid UTF-8", path));
  }
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::map<std::string, Item>& items,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  // widest elements first: every tensor then starts at a multiple of its own element size, without holes
  std::vector<const std::pair<const std::string, Item>*> order;
  for (const auto& item : items) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return file_type_bytes(a->second.type) > file_type_bytes(b->second.type);
  });
  for (const auto* item : order) {
    const auto& [name, tensor] = *item;
    const auto count = checked_element_count(tensor.shape);
    int64_t bytes = 0, end = 0;
    if (!count || __builtin_mul_overflow(*count, file_type_bytes(tensor.type), &bytes) ||
        __builtin_add_overflow(data_bytes_, bytes, &end))
      throw Error(fmt::format("cannot write {}: tensor '{}' {} is too large", path, name, to_string(tensor.shape)));
    json[name] = {
        {"dtype", file_type_name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {data_bytes_, end}}};
    ranges_[name] = {data_bytes_, end};
    data_bytes_ = end;
  }
  const std::string header = header_bytes(json, path);
  file_.write(0, bytes_of(header));
  const auto offset = static_cast<int64_t>(header.size());
  for (auto& [name, range] : ranges_) range = {offset + range.begin, offset + range.end};
  if (data_bytes_ > 0) file_.write(offset + data_bytes_ - 1, std::span(&kLastByte, 1));
}

void SafetensorsWriter::write(const std::string& name, int64_t offset, std::span<const std::byte> bytes) {
  const auto found = ranges_.find(name);
  if (found == ranges_.end() || offset < 0 ||
      offset + static_cast<int64_t>(bytes.size()) > found->second.end - found->second.begin)
    throw Error(fmt::format("cannot write {}: {} bytes at {} are outside of tensor '{}'", file_.path(), bytes.size(),
                            offset, name));
  file_.write(found->second.begin + offset, bytes);
}

void SafetensorsWriter::commit() { file_.commit(); }

void write_safetensors(const std::string& path, const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::map<std::string, SafetensorsWriter::Item> items;
  for (const auto& [name, tensor] : tensors) {
    const auto count = checked_element_count(tensor.shape);
    if (!count || static_cast<size_t>(*count * file_type_bytes(tensor.type)) != tensor.bytes.size())
      throw Error(fmt::format("cannot write {}: tensor '{}' {} does not hold {} bytes", path, name,
                              to_string(tensor.shape), tensor.bytes.size()));
    items[name] = {tensor.type, tensor.shape};
  }
  SafetensorsWriter writer(path, items, metadata);
  for (const auto& [name, tensor] : tensors) writer.write(name, 0, tensor.bytes);
  writer.commit();
}

}  // namespace fp4sim::io
