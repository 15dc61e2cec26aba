// The header of a safetensors file: JSON to checked entries.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/io/safetensors.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(fmt::format("{}: not a valid safetensors file: {}", path, what));
}

/// Names may be long or hold anything; messages show a bounded, printable part.
std::string shown(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, 80)) text += (c >= ' ' && c <= '~') ? c : '?';
  return "'" + text + (name.size() > 80 ? "…'" : "'");
}

/// Bytes of the JSON header, from the first bytes of a file of `file_size`.
uint64_t header_length(std::span<const std::byte> start, uint64_t file_size, const std::string& path) {
  if (start.size() < kLengthBytes)
    fail(path, fmt::format("{} bytes long, the header length alone needs {}", start.size(), kLengthBytes));
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  if (length > kMaxHeaderBytes)
    fail(path, fmt::format("header of {} bytes, at most {} allowed", length, kMaxHeaderBytes));
  if (length > file_size - kLengthBytes)
    fail(path,
         fmt::format("header of {} bytes, but only {} bytes follow (truncated?)", length, file_size - kLengthBytes));
  return length;
}

/// Parses the header and rejects names that occur twice in one object, which a JSON tree would silently merge.
Json parse_json(std::string_view text, const std::string& path) {
  if (text.empty() || text.front() != '{') fail(path, "the header does not begin with '{'");
  std::vector<std::set<std::string>> open_objects;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 8) fail(path, "the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second)
      fail(path, fmt::format("duplicated name {}", shown(parsed.get<std::string>())));
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::parse_error& error) {
    fail(path, fmt::format("malformed JSON at byte {} of the header", error.byte));
  } catch (const Json::exception&) {
    fail(path, "malformed JSON in the header");
  }
}

int64_t size_from(const Json& value, const std::string& what, const std::string& path) {
  if (!value.is_number_integer()) fail(path, what + " is not a whole number");
  if (value.is_number_unsigned() ? value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX) : value.get<int64_t>() < 0)
    fail(path, what + " is outside 0 … 2^63-1");
  return value.get<int64_t>();
}

const Json& field(const Json& entry, const char* key, Json::value_t type, const std::string& name,
                  const std::string& path) {
  const auto found = entry.find(key);
  if (found == entry.end() || found->type() != type)
    fail(path, fmt::format("tensor {}: missing or wrong {}", shown(name), key));
  return *found;
}

TensorEntry tensor_entry(const std::string& name, const Json& json, const std::string& path) {
  if (!json.is_object() || json.size() != 3)
    fail(path, fmt::format("tensor {} is not {{dtype, shape, data_offsets}}", shown(name)));
  TensorEntry entry;
  entry.name = name;
  const auto word = field(json, "dtype", Json::value_t::string, name, path).get<std::string>();
  const auto type = find_file_type(word);
  if (!type) fail(path, fmt::format("tensor {}: unknown dtype {}", shown(name), shown(word)));
  entry.type = *type;
  for (const Json& size : field(json, "shape", Json::value_t::array, name, path))
    entry.shape.push_back(size_from(size, fmt::format("tensor {}: a size of the shape", shown(name)), path));
  const Json& offsets = field(json, "data_offsets", Json::value_t::array, name, path);
  if (offsets.size() != 2) fail(path, fmt::format("tensor {}: data_offsets needs 2 numbers", shown(name)));
  entry.begin = size_from(offsets[0], fmt::format("tensor {}: an offset", shown(name)), path);
  entry.end = size_from(offsets[1], fmt::format("tensor {}: an offset", shown(name)), path);
  const auto count = checked_element_count(entry.shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, file_type_bytes(entry.type), &bytes))
    fail(path, fmt::format("tensor {}: shape is too large", shown(name)));
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    fail(path, fmt::format("tensor {}: shape needs {} bytes, data_offsets are [{}, {}]", shown(name), bytes,
                           entry.begin, entry.end));
  return entry;
}

std::map<std::string, std::string> metadata_from(const Json& json, const std::string& path) {
  if (!json.is_object()) fail(path, "__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail(path, fmt::format("metadata {} is not a text", shown(key)));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// The ranges must tile the bytes after the header: no overlap, no hole, nothing behind the last.
void check_ranges(const std::vector<TensorEntry>& tensors, int64_t data_bytes, const std::string& path) {
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  int64_t position = 0;
  for (const TensorEntry* entry : order) {
    if (entry->end > data_bytes)
      fail(path, fmt::format("tensor {} ends at byte {}, but only {} bytes follow the header (truncated?)",
                             shown(entry->name), entry->end, data_bytes));
    if (entry->begin < position) fail(path, fmt::format("tensor {} overlaps another tensor", shown(entry->name)));
    if (entry->begin > position) fail(path, fmt::format("bytes {} to {} belong to no tensor", position, entry->begin));
    position = entry->end;
  }
  if (position != data_bytes)
    fail(path, fmt::format("{} bytes follow the header, the tensors cover {}", data_bytes, position));
}

SafetensorsHeader header_from(std::string_view text, uint64_t file_size, const std::string& path) {
  const Json json = parse_json(text, path);
  SafetensorsHeader header;
  header.data_offset = static_cast<int64_t>(kLengthBytes + text.size());
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      header.metadata = metadata_from(value, path);
    } else {
      header.tensors.push_back(tensor_entry(name, value, path));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  check_ranges(header.tensors, static_cast<int64_t>(file_size) - header.data_offset, path);
  return header;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& path) {
  const uint64_t length = header_length(file, file.size(), path);
  return header_from({reinterpret_cast<const char*>(file.data()) + kLengthBytes, length}, file.size(), path);
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const auto file_size = static_cast<uint64_t>(file.size());
  std::vector<std::byte> start(std::min(file_size, kLengthBytes));
  file.read(0, start);
  std::string text(header_length(start, file_size, file.path()), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return header_from(text, file_size, file.path());
}

}  // namespace fp4sim::io
