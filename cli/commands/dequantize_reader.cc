#include "cli/commands/dequantize_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "cli/io/ggml_blocks.h"
#include "reference/contract/error.h"
#include "reference/contract/numerics_version.h"

namespace fp4sim::cli {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    result_.file = std::make_shared<const io::InputFile>(path);
    header_ = io::read_safetensors_header(*result_.file);
    result_.data_offset = header_.data_offset;
  }

  PackedFile read() {
    const QuantSpec spec = parse_field<QuantSpec>("spec", [](const std::string& t) { return parse_quant_spec(t); });
    const Axis axis = parse_field<Axis>("axis", [](const std::string& t) { return parse_axis(t); });
    result_.layout = parse_field<PackedLayout>("layout", [](const std::string& t) {
      for (const PackedLayout layout : {PackedLayout::fp4sim, PackedLayout::ggml})
        if (t == layout_name(layout)) return layout;
      throw Error("it is neither fp4sim nor ggml");
    });
    if (text("numerics_version") != std::to_string(kNumericsVersion))
      fail(fmt::format("numerics_version is `{}`, this program has {}", shown(text("numerics_version")),
                       kNumericsVersion));
    if (result_.layout == PackedLayout::ggml && axis != Axis::last)
      fail("layout ggml along another axis than the last");
    for (const auto& [key, value] : header_.metadata) {
      const std::string suffix = kShapeKey;
      if (key.ends_with(suffix)) add_tensor(key.substr(0, key.size() - suffix.size()), value, spec, axis);
    }
    require_no_strangers();
    if (result_.tensors.empty()) fail("no packed tensor is named in its metadata");
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: not a file of packed tensors: {}", path_, what));
  }
  static std::string shown(const std::string& text) {
    std::string out;
    for (const char c : text.substr(0, 80)) out += c >= ' ' && c <= '~' ? c : '?';
    return out;
  }
  const std::string& text(const std::string& key) const {
    const auto found = header_.metadata.find(key);
    if (found == header_.metadata.end()) fail(fmt::format("its metadata lacks `{}`", shown(key)));
    return found->second;
  }
  template <class T, class Parse>
  T parse_field(const std::string& key, const Parse& parse) const {
    try {
      return parse(text(key));
    } catch (const UsageError& error) {  // from a parser of the command line's words: here the file is wrong
      fail(fmt::format("metadata `{}`: {}", shown(key), shown(error.what())));
    }
  }

  /// A shape that packed values can have, with a size in int64 bytes.
  Shape checked_shape(const std::string& name, const std::string& value, Axis axis) const {
    Shape shape;
    try {
      shape = parse_shape_text(value);
    } catch (const Error& error) {
      fail(fmt::format("tensor '{}': {}", shown(name), shown(error.what())));
    }
    const auto count = io::checked_element_count(shape);
    constexpr int64_t kLargest = int64_t{1} << 57;  // times 4 bytes and padded rows still fit
    bool sound = count && *count <= kLargest && !shape.empty() && (axis == Axis::last || shape.size() > 1);
    int64_t rows = 1;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] > kLargest ||
          (i + 1 < shape.size() && __builtin_mul_overflow(rows, std::max<int64_t>(shape[i], 1), &rows)))
        sound = false;
    if (!sound || rows > kLargest) fail(fmt::format("tensor '{}': impossible shape {}", shown(name), shown(value)));
    return shape;
  }

  void add_tensor(const std::string& name, const std::string& shape, const QuantSpec& spec, Axis axis) {
    PackedEntry entry{name, {DType::packed, checked_shape(name, shape, axis), spec, axis}, 0, {}};
    if (spec.element.bias_auto && result_.layout == PackedLayout::fp4sim) entry.bias = bias_of(name, spec.element);
    for (const auto& [full, item] : items_of(entry)) {
      const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                      [&full = full](const io::TensorEntry& t) { return t.name == full; });
      if (found == header_.tensors.end()) fail(fmt::format("tensor '{}' is missing", shown(full)));
      if (found->type != item.type || found->shape != item.shape)
        fail(fmt::format("tensor '{}' is {} {}, its metadata need {} {}", shown(full), file_type_name(found->type),
                         to_string(found->shape), file_type_name(item.type), to_string(item.shape)));
      entry.parts[full.substr(name.size())] = *found;
    }
    result_.tensors.push_back(std::move(entry));
  }

  QuantizeJob::Items items_of(const PackedEntry& entry) const {
    if (result_.layout == PackedLayout::fp4sim) return packed_items(entry.name, entry.packed);
    const io::GgmlLayout& layout = parse_field_layout(entry.packed.spec);
    Shape shape = entry.packed.shape;
    if (shape.back() % layout.block_elements != 0)
      fail(fmt::format("tensor '{}': rows of {} elements are not made of blocks of {}", shown(entry.name), shape.back(),
                       layout.block_elements));
    shape.back() /= layout.block_elements;
    shape.push_back(layout.block_bytes);
    return {{entry.name + kBlocks, {io::FileType::u8, shape}}};
  }
  const io::GgmlLayout& parse_field_layout(const QuantSpec& spec) const {
    try {
      return io::ggml_layout(spec);
    } catch (const UsageError& error) {
      fail(error.what());
    }
  }

  int32_t bias_of(const std::string& name, const ElementFormat& element) const {
    const std::string& value = text(name + kBiasKey);
    const BiasRange range = user_bias_range(element.exponent_bits, element.mantissa_bits);
    int32_t bias = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bias);
    if (error != std::errc{} || end != value.data() + value.size() || bias < range.lowest || bias > range.highest)
      fail(fmt::format("tensor '{}': bias `{}` is not a number from {} to {}", shown(name), shown(value), range.lowest,
                       range.highest));
    return bias;
  }

  void require_no_strangers() const {
    for (const io::TensorEntry& tensor : header_.tensors) {
      bool known = false;
      for (const PackedEntry& entry : result_.tensors)
        known |= tensor.name.starts_with(entry.name) &&
                 (entry.parts.contains(tensor.name.substr(entry.name.size())) ||
                  (entry.packed.spec.occ.enabled && tensor.name.starts_with(entry.name + kResidual)));
      if (!known) fail(fmt::format("tensor '{}' belongs to no name in its metadata", shown(tensor.name)));
    }
  }

  std::string path_;
  io::SafetensorsHeader header_;
  PackedFile result_;
};

}  // namespace

PackedFile open_packed(const std::string& path) { return Reader(path).read(); }

void check_codes(std::span<const uint8_t> codes, int64_t row_bytes, int64_t row_bits) {
  const int64_t used = row_bits % 8;
  if (used == 0 || row_bytes == 0) return;
  for (size_t last = static_cast<size_t>(row_bytes) - 1; last < codes.size(); last += static_cast<size_t>(row_bytes))
    if (codes[last] >> used != 0) throw Error("bits behind the last code of a row are not zero");
}

void check_scales(std::span<const std::byte> scales, const QuantSpec& spec) {
  if (spec.scale == ScaleFormat::e8m0) return;
  if (spec.scale == ScaleFormat::fp32) {
    for (size_t at = 0; at < scales.size(); at += 4) {
      float value;
      std::memcpy(&value, scales.data() + at, 4);
      if (value < 0 || value - value != 0)
        if (value == value) throw Error(fmt::format("scale {} is negative or infinite", value));
    }
    return;
  }
  const uint32_t largest = nan_code(scale_element(spec));
  for (const std::byte b : scales)
    if (std::to_integer<uint32_t>(b) > largest)
      throw Error(
          fmt::format("scale code 0x{:02X} is beyond the format's last, 0x{:02X}", std::to_integer<int>(b), largest));
}

}  // namespace fp4sim::cli
