#include "reference/scalar/scale_choice.h"

#include <cmath>

#include "reference/scalar/codec.h"

namespace fp4sim::scalar {
namespace {

/// The error sum of a block with one more element: a code of value `value` under scale `scale` stands for x.
using AddError = double (*)(double sum, float x, float value, float scale, float tensor_amax, bool sr34);

/// opt: binary64; the difference is exact but where a direction rounds up an x that is 2^-29 of a step and less.
double add_opt(double sum, float x, float value, float scale, float, bool sr34) {
  const double wanted = (sr34 ? 0.75 : 1.0) * static_cast<double>(x);
  const double d = wanted - static_cast<double>(value) * static_cast<double>(scale);
  return sum + d * d;
}

/// e of 4over6, every operation in binary32.
float four_over_six_error(float x, float value, float scale, float tensor_amax, bool sr34) {
  const float wanted = sr34 ? 0.75f * x : x;
  return value * scale * tensor_amax / 1536.0f - wanted;
}

double add_mse(double sum, float x, float value, float scale, float tensor_amax, bool sr34) {
  const float e = four_over_six_error(x, value, scale, tensor_amax, sr34);
  return static_cast<float>(sum) + e * e;
}

double add_mae(double sum, float x, float value, float scale, float tensor_amax, bool sr34) {
  return static_cast<float>(sum) + std::fabs(four_over_six_error(x, value, scale, tensor_amax, sr34));
}

struct ErrorRow {
  ScaleRule rule;
  AddError add;
  bool stochastic;  // rounds with the spec's random bits, else by rne where the spec is stochastic
};
constexpr ErrorRow kErrors[] = {
    {ScaleRule::opt, add_opt, false},
    {ScaleRule::four_over_six_mse, add_mse, true},
    {ScaleRule::four_over_six_mae, add_mae, true},
};

const ErrorRow* error_of(ScaleRule rule) {
  for (const ErrorRow& row : kErrors)
    if (row.rule == rule) return &row;
  return nullptr;
}

/// The sum with the error of x under one scale.
double with_error(double sum, const ErrorRow& error, float x, uint8_t scale_code, const TensorScales& tensor,
                  const QuantSpec& spec, uint32_t random) {
  const float scale = decode_scale(scale_code, spec);
  const double y = scaled_value(x, scale, tensor, spec);
  const Rounding rounding = is_stochastic(spec.rounding) && !error.stochastic ? Rounding::rne : spec.rounding;
  const float value = decode_code(encode_value(y, spec.element, rounding, uses_ieee(spec), random), spec.element);
  return error.add(sum, x, value, scale, tensor.amax, spec.sr34);
}

}  // namespace

std::vector<uint8_t> choose_scales(const std::vector<ScaleCandidates>& candidates, const float* x,
                                   const ValueType& type, const TensorScales& tensor, const ElementBits& random) {
  std::vector<uint8_t> chosen;
  for (const ScaleCandidates& c : candidates) chosen.push_back(c.first);
  const ErrorRow* error = error_of(type.spec.rule);
  if (error == nullptr) return chosen;

  std::vector<double> first(candidates.size()), second(candidates.size());
  const ScaleGrid grid = scale_grid(type);
  const MatrixView m = matrix_view(type.shape);
  for (int64_t i = 0; i < element_count(type.shape); ++i) {
    const int64_t row = i / m.cols;
    const auto block = static_cast<size_t>(scale_index(grid, row / m.rows, row % m.rows, i % m.cols));
    const ScaleCandidates& c = candidates[block];
    if (c.first == c.second) continue;  // nothing to choose; nonfinite blocks are such
    const uint32_t r = random.bits(i);
    first[block] = with_error(first[block], *error, x[i], c.first, tensor, type.spec, r);
    second[block] = with_error(second[block], *error, x[i], c.second, tensor, type.spec, r);
  }
  for (size_t b = 0; b < chosen.size(); ++b)
    if (second[b] < first[b]) chosen[b] = candidates[b].second;
  return chosen;
}

}  // namespace fp4sim::scalar
