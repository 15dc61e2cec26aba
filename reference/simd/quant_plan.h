// From a QuantSpec to the plain facts that the quantization kernels take (baseline code).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/backend.h"
#include "reference/contract/estimator.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd {

/// The element format of a spec with its policy: `saturate`, or `ieee` if the spec says so or the format is an unscaled
/// level (bf16, fp16; §2). `in_block`: codes of a scaled spec, where NaN marks a nonfinite block.
Codec make_codec(const ElementFormat& format, Rounding rounding, bool ieee, bool in_block);
Codec make_codec(const QuantSpec& spec);

Scaling scaling_of(const QuantSpec& spec);

/// te: `tensor_amax` = largest |x| over the finite blocks (§4.2); other rules ignore it.
ScalePlan make_scale_plan(const QuantSpec& spec, float tensor_amax);
/// The same from a stored tensor scale: enough for encode_factors and decode_factors.
ScalePlan stored_scale_plan(const QuantSpec& spec, const Tensor& packed);

/// seed and step from the step tensor, stream from the node.
RandomBits random_bits(const NodeCall& call, size_t step_input);

/// An EstimatorPlan and the tables it points to.
struct EstimatorTables {
  EstimatorTables(const Estimator& estimator, const ElementFormat& format);
  EstimatorTables(const EstimatorTables&) = delete;
  EstimatorTables& operator=(const EstimatorTables&) = delete;
  std::vector<double> midpoints, weights, heights;
  EstimatorPlan plan;
};

}  // namespace fp4sim::simd
