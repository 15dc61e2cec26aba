#include "cli/io/tensor_source.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <cstring>
#include <filesystem>

#include "cli/io/safetensors.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

bool is_readable(FileType type) { return type == FileType::f32 || type == FileType::f16 || type == FileType::bf16; }

void require_readable(const std::string& path, const std::string& name, FileType type, const char* hint) {
  if (is_readable(type)) return;
  throw Error(fmt::format("{}: tensor '{}' is {}, not F32, F16 or BF16{}", path, name, file_type_name(type), hint));
}

bool matches(const std::string& glob, const std::string& name) {
  return glob.empty() || ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

void to_binary32(FileType type, const std::byte* from, int64_t count, float* to) {
  if (type == FileType::f32) {
    std::memcpy(to, from, static_cast<size_t>(count) * 4);
    return;
  }
  const auto convert = type == FileType::f16 ? f16_to_f32 : bf16_to_f32;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = convert(bits);
  }
}

}  // namespace

TensorSource::TensorSource(std::string name, std::shared_ptr<const InputFile> file, const NpyLayout& layout)
    : name_(std::move(name)), file_(std::move(file)), layout_(layout) {
  if (layout.order == NpyOrder::fortran && layout.shape.size() > 1)
    map_ = std::make_shared<const MappedFile>(file_->path());
}

void TensorSource::gather(int64_t first, int64_t count, std::byte* to) const {
  const Shape& shape = layout_.shape;
  const auto strides = strides_of(shape, NpyOrder::fortran);
  const auto width = static_cast<size_t>(file_type_bytes(layout_.type));
  const std::byte* data = map_->bytes().data() + layout_.data_offset;
  Shape index(shape.size());
  int64_t rest = first;
  for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) at += index[axis] * strides[axis];
    std::memcpy(to + static_cast<size_t>(i) * width, data + static_cast<size_t>(at) * width, width);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
}

void TensorSource::read(int64_t first, int64_t count, float* to) const {
  if (count == 0) return;
  const int64_t width = file_type_bytes(layout_.type);
  const auto bytes = static_cast<size_t>(count * width);
  std::vector<std::byte> raw;
  std::byte* target = reinterpret_cast<std::byte*>(to);
  if (layout_.type != FileType::f32) {
    raw.resize(bytes);
    target = raw.data();
  }
  if (map_ != nullptr)
    gather(first, count, target);
  else
    file_->read(layout_.data_offset + first * width, {target, bytes});
  if (layout_.type != FileType::f32) to_binary32(layout_.type, raw.data(), count, to);
}

std::vector<TensorSource> open_tensors(const std::string& path, const std::string& glob) {
  const bool npy = path.ends_with(".npy");
  if (!npy && !path.ends_with(".safetensors"))
    throw UsageError(fmt::format("input `{}` must be a .npy or .safetensors file", path));
  const auto file = std::make_shared<const InputFile>(path);
  std::vector<TensorSource> found;
  if (npy) {
    const NpyLayout layout = read_npy_layout(*file);
    const std::string name = std::filesystem::path(path).stem().string();
    require_readable(path, name, layout.type, "");
    if (matches(glob, name)) found.emplace_back(name, file, layout);
  } else {
    const SafetensorsHeader header = read_safetensors_header(*file);
    for (const TensorEntry& entry : header.tensors) {
      if (!matches(glob, entry.name)) continue;
      require_readable(path, entry.name, entry.type, " (--tensors PATTERN chooses tensors)");
      found.emplace_back(entry.name, file,
                         NpyLayout{entry.type, entry.shape, NpyOrder::c, header.data_offset + entry.begin});
    }
  }
  if (found.empty())
    throw Error(glob.empty() ? fmt::format("{}: it holds no tensors", path)
                             : fmt::format("{}: no tensor's name matches '{}'", path, glob));
  return found;
}

}  // namespace fp4sim::io
