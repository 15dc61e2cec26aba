// All 2^32 binary32 inputs through every built-in element format (rne): the bit-manipulation codec of `scalar` and op
// quantize of `simd` at its best level, against runs of equal codes whose borders come from rational midpoints
// (proof_runs.h); and `scalar` against CUDA's host conversions. Slow: a format takes one to two minutes on two threads.
// One test a format: --gtest_filter=*e2m1* repeats one; OMP_NUM_THREADS sets the threads.
#include "tests/proof_exhaustive.h"

#include "reference/scalar/codec.h"
#include "reference/simd/backend.h"
#include "tests/proof_cuda.h"

namespace fp4sim {
namespace {

using test::kAllInputs;
using test::kChunk;
using test::on_all_threads;
using test::report;
using test::Verdict;

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

class ElementFormats : public testing::TestWithParam<FormatRow> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, ElementFormats, testing::ValuesIn(format_rows()),
                         [](const auto& row) { return row.param.name; });

TEST_P(ElementFormats, encode_all_inputs_to_the_nearest_even_code) {
  const auto& [name, format, ieee, spec] = GetParam();
  const test::CodeOracle oracle(format, ieee);
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

}  // namespace
}  // namespace fp4sim
