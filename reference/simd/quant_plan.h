// From a QuantSpec to the plain facts that the quantization kernels take (baseline code).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/backend.h"
#include "reference/contract/estimator.h"
#include "reference/simd/kernels_quantize.h"

namespace fp4sim::simd {

/// An element format with its policy: `saturate`, or `ieee` if the spec says so or the format is an unscaled level
/// (bf16, fp16; §2). `in_block`: codes of a scaled spec, where NaN marks a nonfinite block.
Codec make_codec(const ElementFormat& format, Rounding rounding, bool ieee, bool in_block);
Codec make_codec(const QuantSpec& spec);
/// The same for a format that replaces the spec's (a `bauto` tensor's).
Codec make_codec(const QuantSpec& spec, const ElementFormat& format);

/// The values of all codes of a format of at most 8 bits; zeros for wider ones.
struct CodeValues {
  explicit CodeValues(const ElementFormat& format);
  float values[256] = {};
};

/// Codec of a packed value for decoding. `table` is the format's and must outlive it.
Codec decode_codec(const QuantSpec& spec, const ElementFormat& format, const CodeValues& table);

Scaling scaling_of(const QuantSpec& spec);
ValuePlan make_value_plan(const QuantSpec& spec, const ElementFormat& format, const ScalePlan& scales);

/// True if binary32 y and the kernels of encode.h give the spec's codes: the built-in floating-point formats but e3m0,
/// without sr8, sr34 and profile exact, and no factor or quotient that could leave binary32.
bool encodes_narrow(const QuantSpec& spec, const ScalePlan& scales);

/// `tensor_amax`: A of §4.2, the largest |x| over the finite blocks; rules without a tensor scale ignore it.
ScalePlan make_scale_plan(const QuantSpec& spec, float tensor_amax);
/// The same from a stored tensor scale: enough for encode_factors and decode_factors.
ScalePlan stored_scale_plan(const QuantSpec& spec, const Tensor& packed);

/// The bias of a `bauto` tensor (§2) from the amax of its finite values.
int32_t automatic_bias(const ElementFormat& format, float amax);

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
