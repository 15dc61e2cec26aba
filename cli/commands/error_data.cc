// The tensor that `fp4sim error` measures on.
#include <fmt/format.h>

#include <cmath>

#include "cli/commands/distributions.h"
#include "cli/commands/error.h"
#include "cli/commands/error_statistics.h"
#include "cli/io/npy.h"
#include "cli/io/safetensors.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 30;  // drawn: 4 GiB

io::HostTensor read_named(const io::SafetensorsFile& file, const std::string& name) {
  if (!name.empty()) return file.read(name);
  if (file.tensors().size() == 1) return file.read(file.tensors().front().name);
  std::string names;
  for (const io::TensorEntry& entry : file.tensors()) names += (names.empty() ? "" : ", ") + entry.name;
  throw Error(fmt::format("{}: {} tensors, choose one with --name: {}", file.path(), file.tensors().size(), names));
}

io::HostTensor read_tensor(const ErrorDataOptions& o) {
  if (o.file.ends_with(".safetensors")) return read_named(io::SafetensorsFile(o.file), o.name);
  if (!o.file.ends_with(".npy")) throw UsageError("--tensor takes a .npy or .safetensors file, got " + o.file);
  if (!o.name.empty()) throw UsageError("--name chooses a tensor of a .safetensors file; " + o.file + " has only one");
  return io::read_npy(o.file);
}

ErrorData from_file(const ErrorDataOptions& o) {
  const io::HostTensor tensor = io::to_f32(read_tensor(o));
  const auto values = tensor.as<float>();
  ErrorData data{o.name.empty() ? o.file : o.file + " " + o.name, tensor.shape, {values.begin(), values.end()}};
  if (data.values.empty()) throw Error(data.source + ": no elements");
  for (size_t i = 0; i < data.values.size(); ++i)
    if (!std::isfinite(data.values[i])) throw Error(fmt::format("{}: element {} is not finite", data.source, i));
  return data;
}

}  // namespace

ErrorData load_error_data(const ErrorDataOptions& o) {
  if (!o.file.empty()) return from_file(o);
  const Distribution distribution = parse_distribution(o.distribution);
  if (o.rows < 1 || o.columns < 1 || o.rows > kMaxElements / o.columns)
    throw UsageError(fmt::format("--rows times --cols must be from 1 to 2^30, got {} times {}", o.rows, o.columns));
  return {fmt::format("{} seed {}", distribution_text(distribution), o.seed),
          {o.rows, o.columns},
          draw(distribution, o.rows, o.columns, o.seed)};
}

Table describe_data(const ErrorData& data) {
  const Moments m = moments(data.values);
  return {"data",
          {"source", "shape", "elements", "mean", "rms", "max", "kurtosis"},
          {{data.source, to_string(data.shape), static_cast<int64_t>(data.values.size()), m.mean, m.rms, m.largest,
            m.kurtosis}}};
}

std::vector<std::string> split_list(const std::vector<std::string>& values, const std::string& option) {
  std::vector<std::string> items;
  for (const std::string& value : values) {
    int depth = 0;
    items.emplace_back();
    for (const char c : value) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (c == ',' && depth == 0) {
        items.emplace_back();
      } else {
        items.back() += c;
      }
    }
  }
  for (const std::string& item : items)
    if (item.empty()) throw UsageError("--" + option + ": an empty item in the list");
  return items;
}

}  // namespace fp4sim::cli
