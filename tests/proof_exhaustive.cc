// All 2^32 binary32 inputs through every built-in element format (rne) and every deterministic built-in scale format:
// the bit-manipulation codec of `scalar` and op quantize of `simd` at its best level, against runs of equal codes whose
// borders come from rational midpoints (proof_runs.h). Slow: a format takes one to two minutes on two threads.
// One test a format: --gtest_filter=*e2m1* repeats one; OMP_NUM_THREADS sets the threads.
#include <gtest/gtest.h>

#include "reference/contract/step_info.h"
#include "reference/scalar/codec.h"
#include "reference/scalar/scale.h"
#include "reference/simd/backend.h"
#include "tests/proof_cuda.h"
#include "tests/proof_runner.h"
#include "tests/proof_runs.h"

namespace fp4sim {
namespace {

using test::kChunk;
using test::Verdict;

constexpr uint64_t kAllInputs = uint64_t{1} << 32;
constexpr uint64_t kAllMagnitudes = uint64_t{1} << 31;
constexpr int64_t kPiece = 1 << 14;  // inputs of one thread at a time

/// Calls piece(begin, end, verdict) for parts of a chunk on all threads and adds up what they find.
template <class Piece>
void on_all_threads(Verdict& total, const Piece& piece) {
#pragma omp parallel for schedule(dynamic)
  for (int64_t begin = 0; begin < kChunk; begin += kPiece) {
    Verdict part;
    piece(begin, begin + kPiece, part);
#pragma omp critical
    total.add(part);
  }
}

void report(const std::string& name, const Verdict& verdict) {
  std::printf("%s: %lld comparisons, %lld mismatches\n", name.c_str(), static_cast<long long>(verdict.compared),
              static_cast<long long>(verdict.wrong));
  EXPECT_EQ(verdict.wrong, 0) << verdict.first;
}

// ---- element formats ----

struct FormatRow {
  std::string name;  // of the test
  ElementFormat format;
  bool ieee;
  std::string spec;
};

/// Every row of §2 with its default policy, the FP8 formats with `ieee` too.
std::vector<FormatRow> format_rows() {
  std::vector<FormatRow> rows;
  for (const ElementFormatRow& row : kElementFormats) {
    const std::string name = row.name;
    rows.push_back({name, row.format, row.format.bits >= 16, name + ":none:rne"});
    if (row.format.bits == 8 && row.format.specials != Specials::none)
      rows.push_back({name + "_ieee", row.format, true, name + ":none:rne+ieee"});
  }
  return rows;
}

/// The code of a magnitude with a sign.
uint32_t signed_code(uint32_t magnitude, bool negative, const ElementFormat& f) {
  const bool nan = f.specials != Specials::none && magnitude >= nan_code(f);
  if (!negative || nan) return magnitude;
  if (f.encoding == Encoding::twos_complement) return magnitude == 0 ? 0 : (1u << f.bits) - magnitude;
  return magnitude | (1u << (f.bits - 1));
}

/// fp32 is the identity with the canonical NaN; all other formats have runs.
class CodeOracle {
 public:
  CodeOracle(const ElementFormat& f, bool ieee) : format_(f) {
    if (!is_identity_f32(f)) runs_ = test::nearest_even_runs(f, ieee);
  }
  /// Calls visit(bits, code) for bits [first, first + n), whose sign bit is the same.
  template <class Visit>
  void walk(uint32_t first, int64_t n, const Visit& visit) const {
    const uint32_t sign = first & kF32SignBit;
    if (runs_.empty()) {
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t bits = first + static_cast<uint32_t>(i);
        visit(bits, (bits & kF32MagnitudeMask) > kF32Inf ? kF32CanonicalNaN : bits);
      }
      return;
    }
    // A format without NaN gives +max_normal for a NaN of either sign.
    const bool unsigned_nan = format_.specials == Specials::none;
    test::RunWalk runs(runs_, first & kF32MagnitudeMask);
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t bits = first + static_cast<uint32_t>(i), magnitude = bits & kF32MagnitudeMask;
      const bool negative = sign != 0 && !(unsigned_nan && magnitude > kF32Inf);
      visit(bits, signed_code(runs.code_of(magnitude), negative, format_));
    }
  }

 private:
  ElementFormat format_;
  test::Runs runs_;
};

class ElementFormats : public testing::TestWithParam<FormatRow> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, ElementFormats, testing::ValuesIn(format_rows()),
                         [](const auto& row) { return row.param.name; });

TEST_P(ElementFormats, encode_all_inputs_to_the_nearest_even_code) {
  const auto& [name, format, ieee, spec] = GetParam();
  const CodeOracle oracle(format, ieee);
  test::Quantizer simd(simd::make_backend(), spec, {kChunk});
  Verdict total;
  test::for_all_chunks(name, kAllInputs, [&](uint64_t first) {
    for (int64_t i = 0; i < kChunk; ++i)
      simd.input()[i] = std::bit_cast<float>(static_cast<uint32_t>(first + static_cast<uint64_t>(i)));
    simd.run();
    const uint8_t* codes = simd.codes();
    on_all_threads(total, [&](int64_t begin, int64_t end, Verdict& part) {
      int64_t i = begin;
      const auto piece = static_cast<uint32_t>(first + static_cast<uint64_t>(begin));
      oracle.walk(piece, end - begin, [&](uint32_t bits, uint32_t want) {
        const uint32_t scalar = scalar::encode_value(std::bit_cast<float>(bits), format, Rounding::rne, ieee);
        part.add(scalar == want, bits, scalar, want, "scalar");
        const uint32_t code = test::code_at(codes, i++, format.bits);
        part.add(code == want, bits, code, want, "simd");
      });
    });
  });
  EXPECT_EQ(total.compared, 2 * static_cast<int64_t>(kAllInputs));
  report(name, total);
}

// ---- CUDA's host conversions ----

class CudaConversions : public testing::TestWithParam<test::CudaConversion> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, CudaConversions, testing::ValuesIn(test::kCudaConversions),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(CudaConversions, give_the_code_of_scalar_for_all_inputs) {
  if (!test::cuda_headers_installed()) GTEST_SKIP() << "cuda_fp4.h, cuda_fp6.h and cuda_fp8.h were not found";
  const test::CudaConversion row = GetParam();
  Verdict total;
  test::for_all_chunks(row.name, kAllInputs, [&](uint64_t first) {
    on_all_threads(total, [&](int64_t begin, int64_t end, Verdict& part) {
      for (int64_t i = begin; i < end; ++i) {
        const auto bits = static_cast<uint32_t>(first + static_cast<uint64_t>(i));
        const uint32_t got = scalar::encode_value(std::bit_cast<float>(bits), row.format, row.rounding, row.ieee);
        const uint32_t want = test::cuda_code(row, std::bit_cast<float>(bits));
        part.add(got == want, bits, got, want, "scalar against CUDA");
      }
    });
  });
  report(row.name, total);
}

// ---- scale formats ----

/// One scale format, rule and element format; `runs` maps magnitudes of amax to stored scales.
struct ScaleRow {
  std::string name, spec;
};

/// §4.1 in real numbers: whether amax of value a gets at least the scale exponent s.
bool reaches(double a, int s, const ElementFormat& f, ScaleRule rule) {
  const double one = std::ldexp(1.0, s + emax(f));  // the floor rule's first amax with exponent s
  switch (rule) {
    case ScaleRule::floor: return a >= one;
    case ScaleRule::ceil: return a > one / 2;
    case ScaleRule::even: return a >= one - std::ldexp(one, -2 - f.mantissa_bits);
    default: return a > std::ldexp(max_normal_value(f), s - 1);  // rceil and pow2: one step less is too small
  }
}

/// Runs of scale exponents with an offset: codes for e8m0 (127), and 256 for pow2, which no code holds.
test::Runs exponent_runs(const QuantSpec& spec, int lowest, int offset) {
  test::Runs runs{{0, 0}};
  test::add_run(runs, 1, static_cast<uint32_t>(lowest + offset));
  for (int s = lowest + 1; s <= 127; ++s)
    test::add_run(runs, test::first_bits([&](double a) { return a > 0 && reaches(a, s, spec.element, spec.rule); }),
                  static_cast<uint32_t>(s + offset));
  return runs;
}

/// Whether the product or quotient a·factor, rounded to binary32, is at least `least`: exact in binary64, since a tie
/// goes to the even neighbour.
template <class Compare>
bool rounds_to_at_least(float least, const Compare& exceeds) {
  const double below = std::nextafterf(least, 0.0f);
  const double middle = (below + static_cast<double>(least)) / 2;
  const bool even = (std::bit_cast<uint32_t>(least) & 1u) == 0;
  return exceeds(middle, even);
}

/// Scale codes of §4.2 `one` and `te` (A given): rne_sat of a rounded quotient or product.
test::Runs e4m3_runs(const QuantSpec& spec, float tensor_amax) {
  const auto emx = static_cast<float>(max_normal_value(spec.element));
  const float scale_max = 448.0f;
  const float inverse = 1.0f / emx;
  const float multiplier = scale_max * emx / tensor_amax;
  const double factor = multiplier * inverse;
  test::Runs runs{{0, 0}};
  for (const test::Run& code : test::nearest_even_runs(kE4m3, false)) {
    if (code.code == 0 || code.first >= kF32Inf) continue;
    const auto least = std::bit_cast<float>(code.first);
    const uint32_t first = test::first_bits([&](double a) {
      return rounds_to_at_least(least, [&](double middle, bool even) {
        const double got = spec.rule == ScaleRule::te ? a * factor : a;                   // exact: 48 bits
        const double bound = spec.rule == ScaleRule::te ? middle : middle * double{emx};  // exact
        return even ? got >= bound : got > bound;
      });
    });
    test::add_run(runs, first, code.code);
  }
  return runs;
}

constexpr float kTensorAmax = 3.7f;

test::Runs scale_runs(const QuantSpec& spec) {
  test::Runs runs;
  uint32_t nonfinite = 0xFF;
  switch (spec.scale) {
    case ScaleFormat::e8m0: runs = exponent_runs(spec, -127, 127); break;
    case ScaleFormat::fp32: runs = exponent_runs(spec, -149, 256), nonfinite = 1024; break;
    default: runs = e4m3_runs(spec, kTensorAmax), nonfinite = 0x7F;
  }
  test::add_run(runs, kF32Inf, nonfinite);
  return runs;
}

std::vector<ScaleRow> scale_rows() {
  std::vector<ScaleRow> rows;
  for (const ElementFormatRow& element : kElementFormats) {
    if (element.format.bits >= 16) continue;
    const std::string name = element.name;
    for (const char* rule : {"floor", "ceil", "even", "rceil"})
      rows.push_back({"e8m0_" + std::string(rule) + "_" + name, name + ":b16:e8m0/" + rule});
    rows.push_back({"e4m3_one_" + name, name + ":b16:e4m3/one"});
    rows.push_back({"e4m3_te_" + name, name + ":b16:e4m3/te"});
    rows.push_back({"fp32_pow2_" + name, name + ":b16:fp32/pow2"});
  }
  return rows;
}

/// A stored scale as the runs name it: the code, or the exponent of pow2's power of two + 256 (0 for amax = 0, whose
/// scale is 1; 1024 for NaN).
uint32_t named_scale(const QuantSpec& spec, const void* scales, int64_t i, uint32_t amax) {
  if (spec.scale != ScaleFormat::fp32) return static_cast<const uint8_t*>(scales)[i];
  const float scale = static_cast<const float*>(scales)[i];
  if (std::isnan(scale)) return 1024;
  if (amax == 0) return scale == 1.0f ? 0 : 1023;
  const int exponent = std::ilogb(scale);
  return std::ldexp(1.0f, exponent) == scale ? static_cast<uint32_t>(exponent + 256) : 1023;
}

/// The scale that `scalar` gives a block of this amax.
uint32_t scalar_scale(const QuantSpec& spec, const scalar::TensorScales& tensor, uint32_t amax) {
  const auto a = std::bit_cast<float>(amax);
  if (spec.scale == ScaleFormat::fp32) {
    const float scale = amax >= kF32Inf ? std::bit_cast<float>(kF32CanonicalNaN) : scalar::fp32_scale(a, spec);
    return named_scale(spec, &scale, 0, amax);
  }
  return amax >= kF32Inf ? scalar::nonfinite_scale_code(spec) : scalar::scale_candidates(a, tensor, spec).first;
}

class ScaleFormats : public testing::TestWithParam<ScaleRow> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, ScaleFormats, testing::ValuesIn(scale_rows()),
                         [](const auto& row) { return row.param.name; });

// A block of one element: shape (1, n) along the first axis. Odd magnitudes are given with a minus sign.
TEST_P(ScaleFormats, follow_the_rule_for_every_amax) {
  const QuantSpec spec = parse_quant_spec(GetParam().spec);
  const test::Runs runs = scale_runs(spec);
  const bool two_level = has_tensor_scale(spec);
  const scalar::TensorScales tensor =
      two_level ? scalar::tensor_scales(kTensorAmax, spec) : scalar::TensorScales{1.0f, 1.0f};
  test::Quantizer simd(simd::make_backend(), GetParam().spec, {1, kChunk}, "first", nullptr,
                       two_level ? &kTensorAmax : nullptr);
  Verdict total;
  test::for_all_chunks(GetParam().name, kAllMagnitudes, [&](uint64_t first) {
    for (int64_t i = 0; i < kChunk; ++i) {
      const auto bits = static_cast<uint32_t>(first + static_cast<uint64_t>(i));
      simd.input()[i] = std::bit_cast<float>(bits | (bits << 31));
    }
    simd.run();
    on_all_threads(total, [&](int64_t begin, int64_t end, Verdict& part) {
      test::RunWalk walk(runs, static_cast<uint32_t>(first + static_cast<uint64_t>(begin)));
      for (int64_t i = begin; i < end; ++i) {
        const auto bits = static_cast<uint32_t>(first + static_cast<uint64_t>(i));
        const uint32_t want = walk.code_of(bits);
        const uint32_t scalar = scalar_scale(spec, tensor, bits);
        part.add(scalar == want, bits, scalar, want, "scalar");
        const uint32_t stored = named_scale(spec, simd.scales(), i, bits);
        part.add(stored == want, bits, stored, want, "simd");
      }
    });
  });
  EXPECT_EQ(total.compared, 2 * static_cast<int64_t>(kAllMagnitudes));
  report(GetParam().name, total);
}

}  // namespace
}  // namespace fp4sim
