// Kernels of quantize, dequantize and estimator_grad on runs of elements, and the plain facts of a spec they work from.
#pragma once

#include <cstdint>

#include "reference/contract/estimator.h"
#include "reference/contract/quant_spec.h"
#include "reference/simd/level_table.h"

namespace fp4sim::simd {

/// How y, the number given to encode, follows from x and the factor f of its block (§4.1–4.3). f = NaN marks a
/// nonfinite block: its codes are +0 and its multipliers 0.
enum class Scaling : uint8_t {
  none,            // y = x
  multiply,        // y = fl(x·f): e8m0 with f = 2^-s, te with f = enc
  multiply_away,   // the same, but a nonzero x never becomes 0: e8m0 under rtp and rtn
  divide,          // y = fl(x/f): one
  divide_clamped,  // y = fl(x/f) clamped to ±max_normal: fp32 scales
};

/// An element format with its policy and rounding (§2, §3).
struct Codec {
  int32_t bits, mantissa_bits, bias;
  int32_t max_code;       // the largest finite code without sign
  int32_t overflow_code;  // what a larger result becomes: max_code (saturate), the Inf or the NaN code (ieee)
  int32_t unsigned_from;  // codes from here on drop their sign: the NaN of e4m3
  int32_t nan_code;       // of y = NaN: +0 inside a nonfinite block, else the format's NaN or +max_normal
  float min_normal, min_step, max_normal;
  Rounding rounding;
};

/// What scales are made of (§4.1–4.3); `d` and `block_factor` belong to te.
struct ScalePlan {
  ScaleRule rule;
  int32_t emax, mantissa_bits;  // of the element format
  int32_t max_mantissa;         // binary32 fraction bits of max_normal
  float max_normal;
  float block_factor;  // fl(S·fl(1/emx))
  float d;             // tensor scale
};

/// Key and counter words of Philox (§3).
struct RandomBits {
  uint64_t seed;
  uint32_t stream, step;
};

/// Factors of a run: element j has factors[j / block], or factors[j] for block = 0 (columns of axis=first).
struct BlockFactors {
  const float* factors;
  int64_t block;
};
inline constexpr int64_t kOneBlock = INT64_MAX;

struct EncodeJob {
  Codec codec;
  Scaling scaling;
  RandomBits random;  // sr32 only
};

/// The backward multiplier m(y) (§5), constants evaluated.
struct EstimatorPlan {
  EstimatorKind kind;
  double max_normal, min_normal;
  double ulp;                             // 2^-M
  double exponent, k, clip, eps_squared;  // dge: exponent = fl64(fl64(1/k) − 1)
  double beta;                            // soft
  const double* heights;                  // soft: Δ_i
  const double* midpoints;                // soft: c_i ascending
  const double* weights;                  // soft: fl64(Δ_i·β)
  int64_t terms;
};

struct ScaleKernels {
  /// amax[b] = largest magnitude bits of block b of x[0, n); kF32Inf or more where the block is not finite.
  void (*amax_blocks)(const float* x, int64_t n, int64_t block, uint32_t* amax);
  /// The same for each of `cols` columns over `rows` rows, `stride` elements apart.
  void (*amax_columns)(const float* x, int64_t rows, int64_t stride, int64_t cols, uint32_t* amax);
  /// Stored scales (bytes or binary32) of n blocks from their amax.
  void (*store_scales)(const ScalePlan& plan, const uint32_t* amax, int64_t n, void* scales);
  /// The factors f of Scaling, from stored scales.
  void (*encode_factors)(const ScalePlan& plan, const void* scales, int64_t n, float* factors);
  /// Scales as binary32 numbers: what a decoded element is multiplied by.
  void (*decode_factors)(const ScalePlan& plan, const void* scales, int64_t n, float* factors);
};
FP4SIM_LEVEL_TABLE(ScaleKernels, scale_kernels)

struct EncodeKernels {
  /// Codes of x[0, n), packed from the first bit of `codes`. first = index of x[0] in the logical tensor (§3).
  void (*encode)(const EncodeJob& job, const float* x, int64_t n, BlockFactors f, int64_t first, uint8_t* codes);
  /// The same bits with NaN canonical: fp32 as an element format.
  void (*copy_canonical)(const float* x, int64_t n, float* y);
  /// Philox words of elements first … first + n − 1. `words` has room for n + kPhiloxSlack; returns where the first
  /// lies.
  const uint32_t* (*philox)(const RandomBits& random, int64_t first, int64_t n, uint32_t* words);
};
FP4SIM_LEVEL_TABLE(EncodeKernels, encode_kernels)
inline constexpr int kPhiloxSlack = 160;

struct DecodeKernels {
  /// out[j] = fl(fl(code·f)·d); f.factors = nullptr: the code's value alone. d = nullptr: no tensor scale.
  void (*decode)(const Codec& codec, const uint8_t* codes, int64_t n, BlockFactors f, const float* d, float* out);
};
FP4SIM_LEVEL_TABLE(DecodeKernels, decode_kernels)

struct EstimatorKernels {
  /// dx = fl(dy·m(y)).
  void (*gradient)(const EstimatorPlan& plan, Scaling scaling, float max_normal, const float* dy, const float* x,
                   int64_t n, BlockFactors f, float* dx);
  /// out = the soft forward value (§5): fl(fl(f(y))·s), with d the tensor scale fl(fl(fl(f(y))·b)·d). `f` are the
  /// factors of Scaling, `scales` those of decode; scales.factors = nullptr: fl(f(y)) alone. NaN where a scale is NaN.
  void (*soft_forward)(const EstimatorPlan& plan, Scaling scaling, float max_normal, const float* x, int64_t n,
                       BlockFactors f, BlockFactors scales, const float* d, float* out);
};
FP4SIM_LEVEL_TABLE(EstimatorKernels, estimator_kernels)

}  // namespace fp4sim::simd
