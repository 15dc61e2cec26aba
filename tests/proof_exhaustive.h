// What the exhaustive proofs share: pieces of a chunk on all threads, the report, and the oracle of codes.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/proof_runner.h"
#include "tests/proof_runs.h"

namespace fp4sim::test {

inline constexpr uint64_t kAllInputs = uint64_t{1} << 32;
inline constexpr uint64_t kAllMagnitudes = uint64_t{1} << 31;
inline constexpr int64_t kPiece = 1 << 14;  // inputs of one thread at a time

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

inline void report(const std::string& name, const Verdict& verdict) {
  std::printf("%s: %lld comparisons, %lld mismatches\n", name.c_str(), static_cast<long long>(verdict.compared),
              static_cast<long long>(verdict.wrong));
  EXPECT_EQ(verdict.wrong, 0) << verdict.first;
}

/// The code of a magnitude with a sign.
inline uint32_t signed_code(uint32_t magnitude, bool negative, const ElementFormat& f) {
  const bool nan = f.specials != Specials::none && magnitude >= nan_code(f);
  if (!negative || nan) return magnitude;
  if (f.encoding == Encoding::twos_complement) return magnitude == 0 ? 0 : (1u << f.bits) - magnitude;
  return magnitude | (1u << (f.bits - 1));
}

/// fp32 is the identity with the canonical NaN; all other formats have runs.
class CodeOracle {
 public:
  CodeOracle(const ElementFormat& f, bool ieee) : format_(f) {
    if (!is_identity_f32(f)) runs_ = nearest_even_runs(f, ieee);
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
    RunWalk runs(runs_, first & kF32MagnitudeMask);
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t bits = first + static_cast<uint32_t>(i), magnitude = bits & kF32MagnitudeMask;
      const bool negative = sign != 0 && !(unsigned_nan && magnitude > kF32Inf);
      visit(bits, signed_code(runs.code_of(magnitude), negative, format_));
    }
  }

 private:
  ElementFormat format_;
  Runs runs_;
};

}  // namespace fp4sim::test
