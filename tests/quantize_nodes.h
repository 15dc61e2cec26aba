// quantize and dequantize as nodes of one backend, with everything a test compares taken out of the packed value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/contract/philox.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/codec.h"
#include "tests/node_runner.h"

namespace fp4sim::test {

inline constexpr uint32_t kQuantizeStream = stream_of("layers.0.ffn.up/x/fprop");
inline const StepInfo kQuantizeStep{.seed = 0x0123456789ABCDEFull, .step = 7};

struct Quantized {
  HostValue packed;
  std::vector<float> decoded;

  std::vector<uint32_t> codes() const {
    const MatrixView m = matrix_view(packed.type.shape);
    const auto* bytes = reinterpret_cast<const uint8_t*>(packed.parts[0].data());
    std::vector<uint32_t> all;
    for (int64_t row = 0; row < m.matrices * m.rows; ++row)
      for (int64_t col = 0; col < m.cols; ++col)
        all.push_back(scalar::load_code(bytes + row * code_row_bytes(packed.type), col, packed.type.spec.element.bits));
    return all;
  }
  /// Decoded, in scale-grid order; none for unscaled specs.
  std::vector<float> scales() const {
    if (is_unscaled(packed.type.spec)) return {};
    if (packed.type.spec.scale == ScaleFormat::fp32) return floats(packed, 1);
    std::vector<float> values;
    for (const uint8_t code : elements<uint8_t>(packed, 1))
      values.push_back(scalar::decode_scale(code, packed.type.spec));
    return values;
  }
  /// The tensor scale d; 1 without one.
  float d() const { return has_tensor_scale(packed.type.spec) ? floats(packed, 2)[0] : 1.0f; }
  /// The stored bias of `bauto`, else the spec's.
  int bias() const {
    const ElementFormat& f = packed.type.spec.element;
    return f.bias_auto ? elements<int32_t>(packed, 1)[0] : f.bias;
  }
};

struct QuantizeOptions {
  Axis axis = Axis::last;
  int64_t row_offset = 0;
  std::optional<float> amax = std::nullopt;  // the optional input
};

inline Quantized quantize_node(const Shape& shape, const std::vector<float>& x, const std::string& spec,
                               const QuantizeOptions& options = {}) {
  const auto backend = scalar::make_backend();
  std::vector<HostValue> inputs{f32_value(shape, x)};
  Attrs attrs{{"spec", spec}, {"axis", to_string(options.axis)}};
  const bool stochastic = is_stochastic(parse_quant_spec(spec).rounding);
  if (stochastic || options.amax) inputs.push_back(step_value(kQuantizeStep));
  if (options.amax) inputs.push_back(f32_value({}, {*options.amax}));
  if (stochastic) {
    attrs.set("stream", int64_t{kQuantizeStream});
    attrs.set("row_offset", options.row_offset);
  }
  Quantized q;
  q.packed = run_node(*backend, Op::quantize, inputs, attrs)[0];
  q.decoded = floats(run_node(*backend, Op::dequantize, {q.packed})[0]);
  return q;
}

}  // namespace fp4sim::test
