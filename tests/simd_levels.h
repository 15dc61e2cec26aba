// One node on every simd level, with 1, 2 and 7 threads and under a hostile caller environment, against scalar's bits.
#pragma once

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <random>
#include <string>
#include <vector>

#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/bits.h"
#include "tests/node_runner.h"

namespace fp4sim::test {

/// Sets flush-to-zero, denormals-are-zero and rounding down for its lifetime: what a careless caller may leave on.
class HostileEnvironment {
 public:
  HostileEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80 | 0x8000 | 0x0040 | 0x2000); }
  ~HostileEnvironment() { _mm_setcsr(saved_); }
  HostileEnvironment(const HostileEnvironment&) = delete;
  HostileEnvironment& operator=(const HostileEnvironment&) = delete;

 private:
  unsigned saved_;
};

/// Equal components: f32 by bits with NaN canonical, everything else byte by byte.
inline testing::AssertionResult same_value(const HostValue& got, const HostValue& want) {
  if (!(got.type == want.type)) return testing::AssertionFailure() << to_string(got.type) << " is the wrong type";
  if (want.type.dtype == DType::f32) return same_bits(floats(got), floats(want));
  if (got.parts != want.parts) return testing::AssertionFailure() << "bytes differ";
  return testing::AssertionSuccess();
}

/// Success if every available level gives `scalar`'s outputs for this node.
inline testing::AssertionResult levels_give_scalar_bits(Op op, const std::vector<HostValue>& inputs,
                                                        const Attrs& attrs = {}) {
  const std::vector<HostValue> want = run_node(*scalar::make_backend(), op, inputs, attrs);
  for (const simd::Level level : simd::available_levels()) {
    for (const int threads : {1, 2, 7}) {
      const auto backend = simd::make_backend(level, threads);
      std::vector<HostValue> got;
      if (threads == 2) {
        const HostileEnvironment environment;
        got = run_node(*backend, op, inputs, attrs);
      } else {
        got = run_node(*backend, op, inputs, attrs);
      }
      if (simd::last_level_run() != level) return testing::AssertionFailure() << backend->name() << " did not run";
      for (size_t o = 0; o < want.size(); ++o) {
        const testing::AssertionResult same = same_value(got[o], want[o]);
        if (!same)
          return testing::AssertionFailure() << op_name(op) << " on " << backend->name() << ", " << threads
                                             << " threads, output " << o << ": " << same.message();
      }
    }
  }
  return testing::AssertionSuccess();
}

/// What random elements look like: ordinary numbers, every binade, or every binade with corner values among them.
enum class Fill { ordinary, wide, corners };

inline std::vector<float> random_floats(uint64_t seed, int64_t n, Fill fill) {
  constexpr uint32_t kCorners[] = {0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001,
                                   0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000,
                                   0xBF800000, 0x42B17218, 0xC2CFF1B5, 0x42AEAC50, 0x3F7FFFFF, 0xC2AEAC4F};
  std::mt19937_64 random(seed);
  const uint64_t one_in = seed % 2 == 0 ? 4 : 200;  // many corners, or so few that most rows have none
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    const uint64_t bits = random();
    v = static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-51 - 2.0);  // [−2, 2)
    if (fill != Fill::ordinary) v = std::ldexp(v, static_cast<int>(bits % 276) - 149);
    if (fill == Fill::corners && random() % one_in == 0) v = std::bit_cast<float>(kCorners[random() % 20]);
  }
  return x;
}

/// Lengths around every boundary of vectors, lanes and chunks.
inline const std::vector<int64_t> kLengths = {1,  2,  3,  4,  5,  7,  8,  9,   15,  16,  17,
                                              31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 333};

inline constexpr Fill kFills[] = {Fill::ordinary, Fill::wide, Fill::corners};

}  // namespace fp4sim::test
