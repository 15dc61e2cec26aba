// encode by integer arithmetic on the bits of a binary64 number: the significand is cut at the grid's step, the format
// is data. quantize and the choice between two scales (§4.1 opt, §4.2 4over6) on top of it.
#include "reference/simd/wide_encode.h"

#include "reference/simd/code_bits.h"
#include "reference/simd/philox.h"
#include "reference/simd/wide_values.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

constexpr int64_t kImplicitBit = int64_t{1} << 52;
constexpr int64_t kMagnitude = INT64_MAX;
constexpr int64_t kInfinity = int64_t{0x7FF} << 52;

inline int64_t at_most(int64_t x, int64_t limit) { return x < limit ? x : limit; }

/// A magnitude between two neighbours of the grid.
struct Cut {
  int64_t code;      // of the neighbour toward zero, on the grid continued without end
  int64_t rest;      // distance from it, in units in which a step is 2^shift
  int64_t shift;     // at most 63: rest is below 2^53 then
  int64_t dropped;   // log2 of the step in the same units, however large
  int64_t negative;  // −1 or 0
};

/// 1 if the magnitude is rounded away from zero.
template <Rounding R>
inline int64_t rounds_up(Cut c, uint32_t random) {
  const int64_t half = int64_t{1} << (c.shift - 1);
  if constexpr (R == Rounding::rne) return c.rest + (c.code & 1) > half;
  if constexpr (R == Rounding::rna) return c.rest >= half;
  if constexpr (R == Rounding::rnz) return c.rest > half;
  if constexpr (R == Rounding::rnu) return c.rest > half - 1 - c.negative;
  if constexpr (R == Rounding::rtz) return 0;
  if constexpr (R == Rounding::rtp) return (c.rest != 0) & (c.negative + 1);
  if constexpr (R == Rounding::rtn) return (c.rest != 0) & -c.negative;
  // r < F = floor(2^bits·rest/step); a step is at least 2^29, that of fp32.
  if constexpr (R == Rounding::sr32) return int64_t{random} < (c.rest << 3) >> at_most(c.dropped - 29, 63);
  if constexpr (R == Rounding::sr8) return int64_t{random & 255u} < c.rest >> at_most(c.dropped - 8, 63);
}

/// Largest code without sign: beyond max_normal the overflow code, unless the rounding points toward zero and y is
/// finite.
template <Rounding R>
inline int64_t largest_code(const Codec& c, int64_t infinite, int64_t negative) {
  const int64_t overflow = c.overflow_code, finite = c.max_code;
  if constexpr (R == Rounding::rtz || R == Rounding::sr32 || R == Rounding::sr8) return infinite ? overflow : finite;
  if constexpr (R == Rounding::rtp) return infinite | (negative + 1) ? overflow : finite;
  if constexpr (R == Rounding::rtn) return infinite | negative ? overflow : finite;
  return overflow;
}

template <Rounding R>
void encode_all(const Codec& c, const double* y, const uint32_t* random, int64_t n, uint32_t* codes) {
  const int64_t m = c.mantissa_bits, emin = c.emin, sign_code = int64_t{1} << (c.bits - 1), all = 2 * sign_code - 1;
  const int64_t nan_code = c.nan_code, signed_below = c.unsigned_from;
  const bool twos_complement = c.twos_complement;
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = __builtin_bit_cast(int64_t, y[i]);
    const int64_t absolute = bits & kMagnitude, negative = bits < 0 ? -1 : 0;
    const int64_t implicit = absolute != 0 ? kImplicitBit : 0;
    const int64_t significand = (absolute & (kImplicitBit - 1)) | implicit;
    const int64_t exponent = (absolute >> 52) - 1023;
    const int64_t binade = exponent > emin ? exponent : emin;  // whose step counts: the subnormal grid is emin's
    Cut cut;
    cut.negative = negative;
    cut.dropped = 52 - m + (binade - exponent);
    cut.shift = at_most(cut.dropped, 63);
    const int64_t whole = significand >> cut.shift;
    cut.rest = significand - (whole << cut.shift);
    cut.code = ((binade - emin) << m) + whole;
    uint32_t r = 0;
    if constexpr (R == Rounding::sr32 || R == Rounding::sr8) r = random[i];
    const int64_t limit = largest_code<R>(c, absolute == kInfinity, negative);
    const int64_t code = at_most(cut.code + rounds_up<R>(cut, r), limit);
    const int64_t of_sign_bit = code < signed_below ? code | (negative & sign_code) : code;
    const int64_t of_complement = ((code ^ negative) - negative) & all;
    const int64_t of_number = twos_complement ? of_complement : of_sign_bit;
    codes[i] = static_cast<uint32_t>(absolute > kInfinity ? nan_code : of_number);
  }
}

/// y and codes of one segment; elements from n to a multiple of 8 get code 0.
void encode_segment(const EncodeJob& job, const float* x, int64_t n, int64_t at, BlockFactors f, int64_t first,
                    uint32_t* codes) {
  alignas(64) double y[kSegment];
  alignas(64) uint32_t words[kSegment + kPhiloxSlack];
  wide_values(job.value, x, n, at, f, y);
  const uint32_t* random = words;
  if (is_stochastic(job.codec.rounding)) random = philox_run(job.random, first, n, words);
  encode_wide(job.codec, y, random, n, codes);
  for (int64_t i = n; i % 8 != 0; ++i) codes[i] = 0;
}

void store_codes(int32_t bits, const uint32_t* codes, int64_t n, uint8_t* out) {
  if (bits <= 8) return pack_bits(bits, codes, n, out);
  if (bits == 32) {
    __builtin_memcpy(out, codes, static_cast<size_t>(4 * n));
    return;
  }
  alignas(64) uint16_t words[kSegment];
  for (int64_t i = 0; i < n; ++i) words[i] = static_cast<uint16_t>(codes[i]);
  __builtin_memcpy(out, words, static_cast<size_t>(2 * n));
}

void encode(const EncodeJob& job, const float* x, int64_t n, BlockFactors f, int64_t first, uint8_t* out) {
  alignas(64) uint32_t codes[kSegment];
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    encode_segment(job, x + at, count, at, f, first + at, codes);
    uint8_t* to = out + at * job.codec.bits / 8;
    store_codes(job.codec.bits, codes, count, to);
  }
}

/// opt: fl64(d·d), d = wanted − code·2^s in binary64.
void squared_errors(const float* x, double wanted, const float* values, const float* scales, int64_t n, double* e) {
  for (int64_t i = 0; i < n; ++i) {
    const double d =
        static_cast<double>(x[i]) * wanted - static_cast<double>(values[i]) * static_cast<double>(scales[i]);
    e[i] = d * d;
  }
}

/// 4over6: e = fl(fl(fl(fl(code·b)·A)/1536) − x), then fl(e·e) or |e|.
void relative_errors(const float* x, float wanted, const float* values, const float* scales, float amax, bool squared,
                     int64_t n, double* errors) {
  for (int64_t i = 0; i < n; ++i) {
    const float e = values[i] * scales[i] * amax / 1536.0f - x[i] * wanted;
    const float magnitude = e < 0 ? -e : e;
    errors[i] = static_cast<double>(squared ? e * e : magnitude);
  }
}

void add_errors(const ErrorJob& job, const float* x, int64_t n, BlockFactors f, BlockFactors scales, int64_t first,
                double* sums) {
  alignas(64) uint32_t codes[kSegment];
  alignas(64) float values[kSegment], each[kSegment];
  alignas(64) double errors[kSegment];
  const bool opt = job.rule == ScaleRule::opt;
  const double wanted = job.encode.value.three_quarters ? 0.75 : 1.0;
  for (int64_t at = 0; at < n; at += kSegment) {
    const int64_t count = n - at < kSegment ? n - at : kSegment;
    encode_segment(job.encode, x + at, count, at, f, first + at, codes);
    for (int64_t i = 0; i < count; ++i) values[i] = job.encode.codec.values[codes[i]];
    expand_factors(scales, at, count, each);
    if (opt)
      squared_errors(x + at, wanted, values, each, count, errors);
    else
      relative_errors(x + at, static_cast<float>(wanted), values, each, job.amax,
                      job.rule == ScaleRule::four_over_six_mse, count, errors);
    for (int64_t i = 0; i < count; ++i) {
      double& sum = sums[f.block == 0 ? at + i : (at + i) / f.block];
      const float narrow = static_cast<float>(sum) + static_cast<float>(errors[i]);
      sum = opt ? sum + errors[i] : static_cast<double>(narrow);
    }
  }
}

uint32_t finite_amax(const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & kF32MagnitudeMask;
    const uint32_t finite = bits < kF32Inf ? bits : 0;
    largest = finite > largest ? finite : largest;
  }
  return largest;
}

}  // namespace

void encode_wide(const Codec& codec, const double* y, const uint32_t* random, int64_t n, uint32_t* codes) {
  switch (codec.rounding) {
    case Rounding::rne: return encode_all<Rounding::rne>(codec, y, random, n, codes);
    case Rounding::rna: return encode_all<Rounding::rna>(codec, y, random, n, codes);
    case Rounding::rnz: return encode_all<Rounding::rnz>(codec, y, random, n, codes);
    case Rounding::rnu: return encode_all<Rounding::rnu>(codec, y, random, n, codes);
    case Rounding::rtz: return encode_all<Rounding::rtz>(codec, y, random, n, codes);
    case Rounding::rtp: return encode_all<Rounding::rtp>(codec, y, random, n, codes);
    case Rounding::rtn: return encode_all<Rounding::rtn>(codec, y, random, n, codes);
    case Rounding::sr32: return encode_all<Rounding::sr32>(codec, y, random, n, codes);
    case Rounding::sr8: return encode_all<Rounding::sr8>(codec, y, random, n, codes);
  }
}

extern const WideKernels wide_kernels;
const WideKernels wide_kernels = {encode, add_errors, finite_amax};

}  // namespace fp4sim::simd::FP4SIM_ISA
