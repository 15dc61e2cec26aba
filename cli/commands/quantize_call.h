// One quantize node on host values, and what it gives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/commands/graph_runner.h"
#include "reference/contract/step_info.h"

namespace fp4sim::cli {

/// Seed, stream and step of stochastic rounding and of Philox signs.
struct RandomState {
  uint64_t seed = 0;
  uint32_t stream = 0, step = 0;
  StepInfo info() const {
    StepInfo info;
    info.seed = seed;
    info.step = step;
    return info;
  }
};

struct QuantizeCall {
  ValueType packed;               // of the output
  std::span<const float> values;  // of its shape
  RandomState random;
  int64_t row_offset = 0;     // rows before these in the whole tensor
  std::optional<float> amax;  // the tensor amax of the whole tensor
  bool decode = true;         // fill `decoded`
};

/// The components of the packed value as they are stored, and its decoded values.
struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<std::byte> scales;  // u8 or f32; empty if there are none
  float tensor_scale = 1;
  int32_t bias = 0;  // of `bauto`
  std::vector<float> decoded;
};

Quantized run_quantize(GraphRunner& runner, const QuantizeCall& call);

}  // namespace fp4sim::cli
