#include "cli/commands/packed_file.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/io/ggml_blocks.h"
#include "reference/contract/error.h"
#include "reference/contract/numerics_version.h"

namespace fp4sim::cli {

const char* layout_name(PackedLayout layout) { return layout == PackedLayout::fp4sim ? "fp4sim" : "ggml"; }

QuantizeJob::Items packed_items(const std::string& name, const ValueType& packed) {
  QuantizeJob::Items items;
  Shape codes = packed.shape;
  codes.back() = code_row_bytes(packed);
  items[name + kCodes] = {io::FileType::u8, codes};
  if (!is_unscaled(packed.spec)) {
    const ScaleGrid grid = scale_grid(packed);
    Shape scales{grid.rows, grid.cols};
    const bool batched = packed.shape.size() > 2 && packed.spec.granularity != Granularity::tensor;
    if (batched) scales.insert(scales.begin(), packed.shape.begin(), packed.shape.end() - 2);
    const bool f32 = packed.spec.scale == ScaleFormat::fp32;
    items[name + kScales] = {f32 ? io::FileType::f32 : io::FileType::u8, scales};
  }
  if (has_tensor_scale(packed.spec)) items[name + kTensorScale] = {io::FileType::f32, {}};
  return items;
}

std::string shape_text(const Shape& shape) { return nlohmann::json(shape).dump(); }

Shape parse_shape_text(const std::string& text) {
  Shape shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto fail = [&] { throw Error("shape `" + text.substr(0, 80) + "` is not a list of sizes such as [2, 3]"); };
  const auto skip = [&] {
    while (at != end && *at == ' ') ++at;
  };
  if (at == end || *at++ != '[') fail();
  for (skip(); at != end && *at != ']'; skip()) {
    int64_t size = -1;
    const auto [behind, error] = std::from_chars(at, end, size);
    if (error != std::errc{} || size < 0 || shape.size() > 32) fail();
    shape.push_back(size);
    at = behind;
    skip();
    if (at != end && *at == ',')
      ++at;
    else if (at == end || *at != ']')
      fail();
  }
  if (at == end || at + 1 != end) fail();
  return shape;
}

std::map<std::string, std::string> file_metadata(const QuantizeSettings& s) {
  const bool ggml = s.layout == PackedLayout::ggml;
  std::map<std::string, std::string> metadata{
      {"spec", to_string(s.spec)},
      {"axis", to_string(s.axis)},
      {"layout", layout_name(s.layout)},
      {"scale_direction", "decode multipliers"},
      {"nibble_order", ggml ? io::ggml_layout(s.spec).nibbles : "even index low"},
      {"numerics_version", std::to_string(kNumericsVersion)}};
  if (is_stochastic(s.spec.rounding) || (s.spec.hadamard.n != 0 && s.spec.hadamard.signs == HadamardSigns::philox)) {
    metadata["seed"] = std::to_string(s.random.seed);
    metadata["stream"] = std::to_string(s.random.stream);
    metadata["step"] = std::to_string(s.random.step);
  }
  return metadata;
}

}  // namespace fp4sim::cli
