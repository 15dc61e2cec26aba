// Names, shapes and metadata of packed values in a safetensors file: what quantize writes and dequantize reads.
#pragma once

#include <map>
#include <string>

#include "cli/commands/quantize_job.h"

namespace fp4sim::cli {

inline constexpr const char* kCodes = ".codes";
inline constexpr const char* kScales = ".scales";
inline constexpr const char* kTensorScale = ".tensor_scale";
inline constexpr const char* kResidual = ".residual.";
inline constexpr const char* kBlocks = ".blocks";  // layout ggml
inline constexpr const char* kShapeKey = ".shape";
inline constexpr const char* kBiasKey = ".bias";

/// Tensors of a packed value by name: codes (…, rows, bytes of a row), scales (…, rows and columns of the scale grid;
/// one scale for a tensor: (1, 1)), tensor_scale ().
QuantizeJob::Items packed_items(const std::string& name, const ValueType& packed);

/// "[2, 3]" and back; Error for another text.
std::string shape_text(const Shape& shape);
Shape parse_shape_text(const std::string& text);

/// What holds for the whole file: spec, axis, layout, scale_direction, nibble_order, numerics_version and, where random
/// bits were used, seed, stream and step.
std::map<std::string, std::string> file_metadata(const QuantizeSettings& settings);

}  // namespace fp4sim::cli
