// Every op of every available simd level against scalar on generated cases; invariance in threads; equal digests.
// The seed is fixed and printed, so that a failure repeats; `fp4sim fuzz` takes fresh ones.
#include "fuzz/differential.h"

#include <xmmintrin.h>

#include "fuzz/forwarding_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/differential_report.h"

namespace fp4sim::fuzz {
namespace {

constexpr uint64_t kSeed = 20251129;
constexpr int64_t kCases = 60;

class Differential : public testing::TestWithParam<Op> {};

TEST_P(Differential, every_simd_level_gives_the_bits_of_scalar) {
  const auto oracle = scalar::make_backend();
  for (const simd::Level level : simd::available_levels()) {
    const auto tested = simd::make_backend(level, 2);
    DifferentialOptions options;
    options.op_glob = op_name(GetParam());
    options.seed = kSeed;
    options.iterations = kCases;
    const DifferentialReport report = fuzz_ops(*tested, *oracle, options);
    EXPECT_TRUE(report.ok()) << "seed " << kSeed << "\n" << test::failures_text(report);
    EXPECT_EQ(simd::last_level_run(), level);
  }
}

TEST_P(Differential, results_do_not_depend_on_threads) {
  const auto maker = scalar::make_backend();
  const auto one = simd::make_backend(1);
  for (const int threads : {2, 7}) {
    const auto many = simd::make_backend(threads);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const Case c = build_case(draw_case(GetParam(), seed), *maker);
      const std::optional<Mismatch> mismatch = run_differential(*many, *one, c);
      EXPECT_FALSE(mismatch) << threads << " threads: " << to_string(*mismatch);
    }
  }
}

/// Runs every node under flush-to-zero, denormals-are-zero and rounding toward -infinity.
class HostileEnvironment final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::string name() const override { return "hostile(" + ForwardingBackend::name() + ")"; }
  void run(const NodeCall& call) override {
    constexpr unsigned kFlush = 0x8040, kRoundDown = 0x2000;
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | kFlush | kRoundDown);
    ForwardingBackend::run(call);
    EXPECT_EQ(_mm_getcsr() & (kFlush | kRoundDown), kFlush | kRoundDown) << "the caller's environment was not restored";
    _mm_setcsr(saved);
  }
};

TEST_P(Differential, results_do_not_depend_on_the_callers_floating_point_environment) {
  const auto oracle = scalar::make_backend();
  HostileEnvironment hostile_scalar(scalar::make_backend()), hostile_simd(simd::make_backend(2));
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Case c = build_case(draw_case(GetParam(), seed), *oracle);
    for (Backend* hostile : {static_cast<Backend*>(&hostile_scalar), static_cast<Backend*>(&hostile_simd)}) {
      const std::optional<Mismatch> mismatch = run_differential(*hostile, *oracle, c);
      EXPECT_FALSE(mismatch) << to_string(*mismatch);
    }
  }
}

TEST_P(Differential, digests_of_the_backends_are_the_digest_of_the_bytes) {
  const auto scalar_backend = scalar::make_backend();
  const auto simd_backend = simd::make_backend(2);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Case c = build_case(draw_case(GetParam(), seed), *scalar_backend);
    for (const HostValue& value : run_case(*scalar_backend, c)) {
      const uint64_t digest = digest_value(value);
      for (Backend* backend : {scalar_backend.get(), simd_backend.get()})
        EXPECT_EQ(backend->digest(place_value(*backend, value).tensor), digest) << describe(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Differential, testing::ValuesIn(test::all_ops()),
                         [](const auto& row) { return std::string(op_name(row.param)); });

TEST(Digest, changes_with_any_single_element) {
  const auto maker = scalar::make_backend();
  HostValue value = build_case(parse_parameters("silu dist=bell seed=1 n=64"), *maker).inputs[0];
  const uint64_t digest = digest_value(value);
  for (size_t i = 0; i < 64; ++i) {
    value.data<uint32_t>()[i] ^= 1u;
    EXPECT_NE(digest_value(value), digest) << i;
    value.data<uint32_t>()[i] ^= 1u;
  }
  std::swap(value.data<uint32_t>()[3], value.data<uint32_t>()[9]);
  EXPECT_NE(digest_value(value), digest) << "two elements exchanged";
}

TEST(Glob, knows_star_and_question_mark) {
  EXPECT_TRUE(matches_glob("*", "matmul"));
  EXPECT_TRUE(matches_glob("*matmul", "sparse_matmul"));
  EXPECT_TRUE(matches_glob("rms?orm*", "rmsnorm_grad"));
  EXPECT_FALSE(matches_glob("matmul", "sparse_matmul"));
  EXPECT_FALSE(matches_glob("", "mean"));
}

}  // namespace
}  // namespace fp4sim::fuzz
