// The choice between two scales of a block by the error of its elements: opt (numerics.md §4.1) and 4over6 (§4.2).
#pragma once

#include "gpu/packed_view.cuh"
#include "gpu/philox.cuh"

namespace fp4sim::gpu {

/// The block's error sum with one more element x, whose code has the value `value` under scale `scale`. Sums of opt are
/// binary64, those of 4over6 binary32; under sr34 the codes stand for 0.75·x.
FP4SIM_HD double add_error(double sum, float x, float value, float scale, float tensor_amax, const Quantizer& q) {
  if (q.rule == ScaleRule::opt) {
    const double wanted = q.sr34 ? 0.75 * static_cast<double>(x) : static_cast<double>(x);
    const double d = wanted - static_cast<double>(value) * static_cast<double>(scale);
    return sum + d * d;
  }
  const float wanted = q.sr34 ? 0.75f * x : x;
  const float e = ((value * scale) * tensor_amax) / 1536.0f - wanted;
  const auto narrow = static_cast<float>(sum);
  if (q.rule == ScaleRule::four_over_six_mse) return narrow + e * e;
  return narrow + float_of(magnitude_bits(e));
}

/// One candidate and its error so far.
struct Contender {
  uint8_t code;
  float scale;
  double error = 0;

  FP4SIM_HD void add(float x, const TensorScales& t, const Quantizer& q, const Codec& codec, uint32_t random) {
    const float value = decode(encode(scaled_value(x, scale, t, q), codec, random), q.element);
    error = add_error(error, x, value, scale, t.amax, q);
  }
};

/// The scale byte of a finite block: the second candidate only if its error is strictly smaller. Elements are taken in
/// row-major order; both candidates see the same random bits, opt rounds to nearest where the spec is stochastic.
FP4SIM_HD uint8_t chosen_scale(const float* x, const Layout& l, int64_t block, const ScaleCandidates& candidates,
                               const TensorScales& t, const Quantizer& q, const RandomSource& source) {
  if (candidates.first == candidates.second) return candidates.first;
  const int64_t per_matrix = l.grid_rows * l.grid_cols, matrix = quotient(block, per_matrix);
  const int64_t in_matrix = block - matrix * per_matrix, grid_row = quotient(in_matrix, l.grid_cols);
  const int64_t first_row = grid_row * l.row_step, first_col = (in_matrix - grid_row * l.grid_cols) * l.col_step;
  const int64_t last_row = least(first_row + l.row_step, l.matrix_rows);
  const int64_t last_col = least(first_col + l.col_step, l.cols);

  Codec codec = q.codec();
  if (q.rule == ScaleRule::opt && is_stochastic(codec.rounding)) codec.rounding = Rounding::rne;
  RandomBits random(source);
  Contender first{candidates.first, decode_scale(candidates.first, q)};
  Contender second{candidates.second, decode_scale(candidates.second, q)};
  for (int64_t row = first_row; row < last_row; ++row)
    for (int64_t col = first_col; col < last_col; ++col) {
      const int64_t i = (matrix * l.matrix_rows + row) * l.cols + col;
      const uint32_t r = random(i);
      first.add(x[i], t, q, codec, r);
      second.add(x[i], t, q, codec, r);
    }
  return second.error < first.error ? second.code : first.code;
}

}  // namespace fp4sim::gpu
