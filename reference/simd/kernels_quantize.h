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
  multiply_real,   // y = x·f, exact in binary64 (wide values only): e8m0
  quotient,        // y = fl64(x·numerator/(f·amax)) (wide values only): exact
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
  int32_t emin = 0;
  bool twos_complement = false;
  const float* values = nullptr;  // of every code, for formats of at most 8 bits that DecodeLanes does not know
};

/// What y in binary64 follows from besides x and f: a binary32 y of finite x is clamped to ±FLT_MAX, x = ±0 stays, and
/// sr34 takes 0.75·y of that.
struct ValuePlan {
  Scaling scaling;
  bool three_quarters;     // sr34
  float max_normal;        // divide_clamped
  double numerator, amax;  // quotient: smax·emx and A
};

/// What scales are made of (§4.1–4.3); from `block_factor` on: the profiles of §4.2.
struct ScalePlan {
  ScaleRule rule;
  int32_t emax, mantissa_bits;  // of the element format
  int32_t max_mantissa;         // binary32 fraction bits of max_normal
  float max_normal;
  float block_factor;       // te: fl(S·fl(1/emx))
  float d;                  // tensor scale
  float multiplier;         // fouroversix and 4over6: S
  float amax;               // A
  double scale_max;         // smax
  bool ue;                  // the scale format is a ue one: scale_values instead of e4m3's formula
  Codec scale_codec;        // e4m3 or ue, nearest even
  float scale_values[256];  // ue
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
  RandomBits random;     // stochastic roundings only
  ValuePlan value = {};  // WideKernels only
};

/// The error of a candidate scale (§4.1 opt, §4.2 4over6): its elements are encoded by `encode`, whose codec has
/// values.
struct ErrorJob {
  EncodeJob encode;
  ScaleRule rule;
  float amax;  // A
};

/// The backward multiplier m(y) (§5), constants evaluated.
struct EstimatorPlan {
  EstimatorKind kind;
  double max_normal, min_normal;
  double ulp;                             // 2^-M
  double exponent, k, clip, eps_squared;  // dge: exponent = fl64(fl64(1/k) − 1)
  double log_ratio, slope;                // dsq: log64(2/α − 1), s = fl64(1/fl64(1 − α))
  float delta;                            // ewgs
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
  /// Stored scales (bytes or binary32) of n blocks from their amax; the first candidates of rules that choose.
  void (*store_scales)(const ScalePlan& plan, const uint32_t* amax, int64_t n, void* scales);
  /// The two candidate bytes of opt (rceil, rceil − 1) and 4over6 (b6, b4); the second wins if its error is smaller.
  void (*store_candidates)(const ScalePlan& plan, const uint32_t* amax, int64_t n, uint8_t* first, uint8_t* second);
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

struct BlockKernels {
  /// Scales and codes of whole blocks in one pass, where the level has a fast way for plan, job and block: how many
  /// elements from the first of x[0, n) on were done, 0 otherwise. The bits are those of the kernels above.
  int64_t (*quantize)(const ScalePlan& plan, const EncodeJob& job, const float* x, int64_t n, int64_t block,
                      void* scales, uint8_t* codes);
};
FP4SIM_LEVEL_TABLE(BlockKernels, block_kernels)

/// The same for every format, rounding and value plan, in binary64.
struct WideKernels {
  /// As EncodeKernels::encode, by job.value instead of job.scaling.
  void (*encode)(const EncodeJob& job, const float* x, int64_t n, BlockFactors f, int64_t first, uint8_t* codes);
  /// Adds the error of every element, ascending, to the sum of its block (element j: sums[j / f.block], or sums[j]).
  /// f and scales: the candidate's factors of encode and decode. 4over6's sums are binary32 numbers.
  void (*add_errors)(const ErrorJob& job, const float* x, int64_t n, BlockFactors f, BlockFactors scales, int64_t first,
                     double* sums);
  /// Largest magnitude bits of the finite elements of x[0, n).
  uint32_t (*finite_amax)(const float* x, int64_t n);
};
FP4SIM_LEVEL_TABLE(WideKernels, wide_kernels)

struct DecodeKernels {
  /// out[j] = fl(fl(code·f)·d); f.factors = nullptr: the code's value alone. d = nullptr: no tensor scale.
  void (*decode)(const Codec& codec, const uint8_t* codes, int64_t n, BlockFactors f, const float* d, float* out);
};
FP4SIM_LEVEL_TABLE(DecodeKernels, decode_kernels)

struct EstimatorKernels {
  /// dx = fl(dy·m(y)); every estimator but ewgs.
  void (*gradient)(const EstimatorPlan& plan, const ValuePlan& value, const float* dy, const float* x, int64_t n,
                   BlockFactors f, float* dx);
  /// dx of ewgs; code_values are the elements' codes without scale.
  void (*ewgs)(const EstimatorPlan& plan, const ValuePlan& value, const float* dy, const float* x,
               const float* code_values, int64_t n, BlockFactors f, float* dx);
  /// out = the soft forward value (§5): fl(fl(f(y))·s), with d the tensor scale fl(fl(fl(f(y))·b)·d). `f` are the
  /// factors of Scaling, `scales` those of decode; scales.factors = nullptr: fl(f(y)) alone. NaN where a scale is NaN.
  void (*soft_forward)(const EstimatorPlan& plan, const ValuePlan& value, const float* x, int64_t n, BlockFactors f,
                       BlockFactors scales, const float* d, float* out);
};
FP4SIM_LEVEL_TABLE(EstimatorKernels, estimator_kernels)

}  // namespace fp4sim::simd
