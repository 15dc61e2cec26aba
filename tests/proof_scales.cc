// All magnitudes of amax through the deterministic built-in scale formats and rules, on both backends; and the kernels
// of `simd` that quantize whole e2m1 blocks in one pass: every y through their codes, every amax through their scales.
// Slow, as proof_exhaustive.cc.
#include "reference/scalar/codec.h"
#include "reference/simd/backend.h"
#include "tests/proof_exhaustive.h"
#include "tests/proof_scale_runs.h"

namespace fp4sim {
namespace {

using test::kAllMagnitudes;
using test::kChunk;
using test::kTensorAmax;
using test::named_scale;
using test::on_all_threads;
using test::report;
using test::scalar_scale;
using test::scale_runs;
using test::Verdict;

/// One scale format, rule and element format; `runs` maps magnitudes of amax to stored scales.
struct ScaleRow {
  std::string name, spec;
};

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

// ---- e2m1 blocks in one pass ----

struct BlockRow {
  std::string name, spec;
  simd::Level level;
};

/// The levels with kernels of their own for e2m1 blocks.
std::vector<BlockRow> block_rows(std::initializer_list<const char*> scales) {
  std::vector<BlockRow> rows;
  for (const simd::Level level : simd::available_levels()) {
    if (level != simd::Level::avx2 && level != simd::Level::avx512) continue;
    for (const std::string scale : scales) {
      std::string name = scale + "_" + simd::to_string(level);
      for (char& c : name)
        if (c == '/' || c == ':') c = '_';
      rows.push_back({name, "e2m1:" + scale, level});
    }
  }
  return rows;
}

class BlockCodes : public testing::TestWithParam<BlockRow> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, BlockCodes, testing::ValuesIn(block_rows({"b32:e8m0/floor", "b16:e4m3/te"})),
                         [](const auto& row) { return row.param.name; });

// The first element of a block makes its scale 1 (mxfp4: 4; te with A = 2688: 6), so that y = x for the others: all
// magnitudes up to the largest that leaves the scale alone (mxfp4: below 8; te: 6), of both signs.
TEST_P(BlockCodes, encode_every_y_to_the_nearest_even_code) {
  const auto& [name, spec, level] = GetParam();
  const bool te = has_tensor_scale(parse_quant_spec(spec));
  const int64_t block = parse_quant_spec(spec).block_size, others = block - 1, blocks = kChunk / block;
  const float pivot = te ? 6.0f : 4.0f, tensor_amax = 2688.0f;
  const uint32_t magnitudes = te ? 0x40C00001u : 0x41000000u;
  const test::Runs runs = test::nearest_even_runs(kE2m1, false);
  test::Quantizer simd(simd::make_backend(level), spec, {kChunk}, "last", nullptr, te ? &tensor_amax : nullptr);
  Verdict total;
  const uint64_t inputs = 2 * uint64_t{magnitudes};
  const auto bits_of = [&](uint64_t index) {
    const uint64_t wrapped = index % inputs;
    return static_cast<uint32_t>(wrapped < magnitudes ? wrapped : (wrapped - magnitudes) | kF32SignBit);
  };
  for (uint64_t first = 0; first < inputs; first += static_cast<uint64_t>(blocks * others)) {
    for (int64_t b = 0; b < blocks; ++b) {
      simd.input()[b * block] = pivot;
      for (int64_t i = 0; i < others; ++i)
        simd.input()[b * block + 1 + i] = std::bit_cast<float>(bits_of(first + static_cast<uint64_t>(b * others + i)));
    }
    simd.run();
    on_all_threads(total, [&](int64_t begin, int64_t end, Verdict& part) {
      for (int64_t b = begin / block; b < end / block; ++b) {
        const uint32_t scale = static_cast<const uint8_t*>(simd.scales())[b];
        part.add(scale == (te ? 0x38u : 127u), static_cast<uint32_t>(b), scale, te ? 0x38u : 127u, "scale");
        for (int64_t i = 0; i < others; ++i) {
          const uint32_t bits = bits_of(first + static_cast<uint64_t>(b * others + i));
          const uint32_t magnitude = test::RunWalk(runs, bits & kF32MagnitudeMask).code_of(bits & kF32MagnitudeMask);
          const uint32_t want = magnitude | (bits >> 28 & 8u);
          const uint32_t code = test::code_at(simd.codes(), b * block + 1 + i, 4);
          part.add(code == want, bits, code, want, "code");
        }
      }
    });
  }
  EXPECT_GE(total.compared, static_cast<int64_t>(inputs));
  report(name, total);
}

class BlockScales : public testing::TestWithParam<BlockRow> {};
INSTANTIATE_TEST_SUITE_P(Exhaustive, BlockScales,
                         testing::ValuesIn(block_rows({"b16:e8m0/floor", "b16:e8m0/ceil", "b16:e8m0/even",
                                                       "b16:e8m0/rceil", "b16:e4m3/te"})),
                         [](const auto& row) { return row.param.name; });

// Blocks of one number among zeros, at a place that changes; its code is that of `scalar` under the stored scale.
TEST_P(BlockScales, follow_the_rule_for_every_amax) {
  const QuantSpec spec = parse_quant_spec(GetParam().spec);
  const test::Runs runs = scale_runs(spec);
  const bool two_level = has_tensor_scale(spec);
  const scalar::TensorScales tensor =
      two_level ? scalar::tensor_scales(kTensorAmax, spec) : scalar::TensorScales{0.0f, 1.0f, 1.0f};
  constexpr int64_t kBlock = 16;
  test::Quantizer simd(simd::make_backend(GetParam().level), GetParam().spec, {kChunk * kBlock}, "last", nullptr,
                       two_level ? &kTensorAmax : nullptr);
  std::fill_n(simd.input(), kChunk * kBlock, 0.0f);
  const auto place = [](int64_t b) { return b * kBlock + b % kBlock; };
  Verdict total;
  test::for_all_chunks(GetParam().name, kAllMagnitudes, [&](uint64_t first) {
    for (int64_t b = 0; b < kChunk; ++b) {
      const auto bits = static_cast<uint32_t>(first + static_cast<uint64_t>(b));
      simd.input()[place(b)] = std::bit_cast<float>(bits | (bits << 31));
    }
    simd.run();
    const auto* scales = static_cast<const uint8_t*>(simd.scales());
    on_all_threads(total, [&](int64_t begin, int64_t end, Verdict& part) {
      test::RunWalk walk(runs, static_cast<uint32_t>(first + static_cast<uint64_t>(begin)));
      for (int64_t b = begin; b < end; ++b) {
        const auto bits = static_cast<uint32_t>(first + static_cast<uint64_t>(b));
        const uint32_t want = walk.code_of(bits);
        part.add(scales[b] == want, bits, scales[b], want, "scale");
        uint32_t code = 0;  // a block with NaN or Inf has codes +0
        if (bits < kF32Inf) {
          const double y =
              scalar::scaled_value(simd.input()[place(b)], scalar::decode_scale(scales[b], spec), tensor, spec);
          code = scalar::encode_value(y, kE2m1, Rounding::rne, false);
        }
        const uint32_t got = test::code_at(simd.codes(), place(b), 4);
        part.add(got == code, bits, got, code, "code");
      }
    });
  });
  EXPECT_EQ(total.compared, 2 * static_cast<int64_t>(kAllMagnitudes));
  report(GetParam().name, total);
}

}  // namespace
}  // namespace fp4sim
