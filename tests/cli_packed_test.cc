// quantize in pieces against the ops on the whole tensor, for every kind of spec, axis and shape.
#include <fmt/format.h>

#include <cmath>

#include "cli/commands/dequantize_reader.h"
#include "cli/commands/packed_file.h"
#include "cli/commands/quantize_cut.h"
#include "cli/commands/quantize_job.h"
#include "reference/contract/error.h"
#include "reference/contract/host_math.h"
#include "reference/scalar/backend.h"
#include "tests/bits.h"
#include "tests/node_runner.h"
#include "tests/temp_folder.h"

namespace fp4sim::cli {
namespace {

using fp4sim::testing::TempFolder;

constexpr RandomState kRandom{0x123456789ABCDEF0, 77, 3};

/// Normal values of many magnitudes, zeros, outliers and, if asked, a NaN and an Inf.
std::vector<float> draw(const Shape& shape, bool specials) {
  std::vector<float> x(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto normal = static_cast<float>(host_math::normal64(5, 9, static_cast<int64_t>(i)));
    x[i] = i % 37 == 5 ? 0.0f : i % 41 == 7 ? normal * 40 : normal * static_cast<float>(1 + i % 7);
  }
  if (specials && x.size() > 100) x[60] = NAN, x[99] = -INFINITY;
  return x;
}

std::string text(Axis axis) { return to_string(axis); }

/// All components of the whole tensor by the name of the file's tensors, from the ops themselves.
struct Whole {
  std::map<std::string, std::vector<std::byte>> parts;
  std::vector<float> decoded;
  int32_t bias = 0;
};

Whole quantize_whole(Backend& backend, const Shape& shape, std::vector<float> x, const QuantSpec& spec, Axis axis) {
  Whole whole;
  StepInfo info = kRandom.info();
  const test::HostValue step = test::step_value(info);
  test::HostValue value = test::f32_value(shape, x);
  if (spec.hadamard.n != 0) {
    const bool philox = spec.hadamard.signs == HadamardSigns::philox;
    std::vector<test::HostValue> in{value};
    if (philox) in.push_back(step);
    value = test::run_node(backend, Op::hadamard, in,
                           {{"n", int64_t{spec.hadamard.n}},
                            {"axis", text(axis)},
                            {"signs", std::string(philox ? "philox" : "fixed16")},
                            {"stream", int64_t{kRandom.stream}}})[0];
  }
  if (spec.occ.enabled) {
    const auto split =
        test::run_node(backend, Op::occ_split, {value}, {{"spec", to_string(spec)}, {"axis", text(axis)}});
    value = split[0];
    if (spec.occ.residual != ResidualFormat::none) {
      const auto row_ptr = test::elements<int64_t>(split[1], 0);
      auto col32 = test::elements<int32_t>(split[1], 1);
      auto values = split[1].parts[2];
      const size_t width = col32.empty() ? 1 : values.size() / col32.size();
      col32.resize(static_cast<size_t>(row_ptr.back()));
      values.resize(col32.size() * width);
      whole.parts[".residual.row_ptr"] = split[1].parts[0];
      whole.parts[".residual.col"] = test::to_bytes(std::vector<int64_t>(col32.begin(), col32.end()));
      whole.parts[".residual.values"] = values;
      if (spec.occ.residual == ResidualFormat::e4m3) whole.parts[".residual.scale"] = split[1].parts[3];
    }
  }
  QuantSpec plain = spec;
  plain.occ = {}, plain.hadamard = {};
  std::vector<test::HostValue> in{value};
  if (is_stochastic(spec.rounding)) in.push_back(step);
  const test::HostValue q = test::run_node(backend, Op::quantize, in,
                                           {{"spec", to_string(plain)},
                                            {"axis", text(axis)},
                                            {"stream", int64_t{kRandom.stream}},
                                            {"row_offset", int64_t{0}}})[0];
  const auto layout = part_layouts(q.type);
  for (size_t p = 0; p < layout.size(); ++p) {
    if (layout[p].name == std::string("bias"))
      whole.bias = test::elements<int32_t>(q, p)[0];
    else
      whole.parts["." + std::string(layout[p].name)] = q.parts[p];
  }
  whole.decoded = test::floats(test::run_node(backend, Op::dequantize, {q})[0]);
  return whole;
}

struct Result {
  std::map<std::string, std::vector<std::byte>> parts;
  std::map<std::string, std::string> metadata;
  std::vector<float> decoded;
  QuantStats stats;
  int64_t pieces;
};

/// The job of `path`, written to `out`.
Result quantize_file(Backend& backend, const std::string& path, const std::string& out, const QuantizeSettings& s) {
  const std::vector<io::TensorSource> sources = io::open_tensors(path, "");
  const auto job = make_quantize_job(backend, sources.at(0), s);
  job->prepare([] {});
  auto metadata = file_metadata(s);
  metadata.merge(job->metadata());
  io::SafetensorsWriter writer(out, job->items(), metadata);
  Result result;
  result.decoded.resize(static_cast<size_t>(element_count(sources[0].shape())));
  result.stats = job->write(
      writer,
      [&](int64_t first, std::span<const float> values) {
        std::copy(values.begin(), values.end(), result.decoded.begin() + first);
      },
      [] {});
  writer.commit();
  result.pieces = job->pieces();
  const io::SafetensorsFile file(out);
  for (const io::TensorEntry& entry : file.tensors())
    result.parts[entry.name.substr(sources[0].name().size())] = file.read(entry.name).bytes;
  result.metadata = file.metadata();
  return result;
}

QuantizeSettings settings_of(const std::string& spec, Axis axis, int64_t piece_bytes, const TempFolder& folder) {
  QuantizeSettings settings;
  settings.spec = parse_quant_spec(spec);
  settings.axis = axis;
  settings.random = kRandom;
  settings.piece_bytes = piece_bytes;
  settings.scratch_folder = folder.path();
  return settings;
}

struct Case {
  const char* spec;
  bool specials = true;  // with a NaN and an Inf
};
constexpr Case kCases[] = {
    {"mxfp4"},
    {"mxfp6e2m3"},
    {"mxfp4:sr32"},
    {"nvfp4"},
    {"nvfp4:sr8"},
    {"e2m1:b32:e4m3/one"},
    {"e2m1:b16:e4m3/exact"},
    {"e2m1:b32:e8m0/opt"},
    {"e2m1:b16:e4m3/4over6(mse):sr32"},
    {"e2m1:row:fp32"},
    {"e2m1:row:e4m3/te:sr32"},
    {"e2m1:row:e8m0/opt"},
    {"e2m1:col:fp32"},
    {"e2m1:col:e4m3/te"},
    {"e2m1:col:e8m0/opt:sr32"},
    {"e2m1:tensor:fp32"},
    {"e5m2:tensor:fp32/pow2:sr32"},
    {"e2m1:tensor:e4m3/te"},
    {"e2m1:tensor:e8m0/opt"},
    {"e2m1:2d16:e4m3/te"},
    {"e2m1:2d32:e8m0/rceil:sr32"},
    {"bf16"},
    {"fp16:none:sr32"},
    {"e2m1b0f:none:rtn"},
    {"e2m1bautof:none"},
    {"e3m2bautof:none:sr32"},
    {"int8:b32:ue5m3/te"},
    {"mxfp4+had(16,philox)"},
    {"nvfp4:sr32+had(16,fixed16)+sr34"},
    {"mxfp4+occ(0.9,fp32,row)"},
    {"nvfp4+occ(0.9,e4m3,row)", false},
    {"e2m1:row:fp32+occ(0.95,bf16,tensor)", false},
    {"mxfp4:sr32+occ(0.9,e4m3,tensor)+had(16,philox)", false},
    {"e2m1:col:fp32+occ(0.9,none,row)"},
    {"e2m1:tensor:fp32:sr32+occ(0.9,e4m3,row)+had(16,philox)", false},
};

/// Prints a failing case by its text.
void PrintTo(const Case& c, std::ostream* out) { *out << c.spec; }

class Pieces : public ::testing::TestWithParam<Case> {};

TEST_P(Pieces, give_the_bits_of_the_whole) {
  const auto backend = scalar::make_backend();
  const TempFolder folder;
  const QuantSpec spec = parse_quant_spec(GetParam().spec);
  const std::pair<Shape, Axis> cases[] = {{{48, 80}, Axis::last},
                                          {{48, 80}, Axis::first},
                                          {{3, 32, 48}, Axis::last},
                                          {{3, 32, 48}, Axis::first},
                                          {{1040}, Axis::last}};
  for (const auto& [shape, axis] : cases) {
    const std::vector<float> x = draw(shape, GetParam().specials);
    io::write_npy(folder / "x.npy", io::make_f32(shape, x));
    const Whole whole = quantize_whole(*backend, shape, x, spec, axis);
    std::string stats;
    for (const int64_t piece_bytes : {int64_t{600}, int64_t{3000}, int64_t{9000}, int64_t{1} << 20}) {
      SCOPED_TRACE(fmt::format("{} {} pieces of {} bytes", to_string(shape), text(axis), piece_bytes));
      const Result result = quantize_file(*backend, folder / "x.npy", folder / "q.safetensors",
                                          settings_of(GetParam().spec, axis, piece_bytes, folder));
      ASSERT_EQ(result.parts.size(), whole.parts.size());
      for (const auto& [name, bytes] : whole.parts) ASSERT_EQ(result.parts.at(name) == bytes, true) << name;
      ASSERT_TRUE(test::same_bits(result.decoded, whole.decoded));
      if (spec.element.bias_auto) {
        ASSERT_EQ(result.metadata.at("x.bias"), std::to_string(whole.bias));
      }
      if (stats.empty()) stats = stats_json({{"x", result.stats}});
      ASSERT_EQ(stats_json({{"x", result.stats}}), stats) << "statistics do not depend on pieces";
    }
  }
}

std::string spec_in_a_test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char c : std::string(info.param.spec)) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(EverySpec, Pieces, ::testing::ValuesIn(kCases), spec_in_a_test_name);

TEST(Cut, bounds_the_pieces_and_wraps_a_single_long_row) {
  const auto largest = [](const char* spec, const Shape& shape, Axis axis, int64_t bytes) {
    const Cut cut = cut_for_quantize({DType::packed, shape, parse_quant_spec(spec), axis}, bytes);
    int64_t values = 0;
    for (const Piece& piece : cut.pieces) values = std::max(values, 4 * cut.rows_of(piece) * cut.cols);
    return values;
  };
  for (const char* spec : {"mxfp4", "nvfp4", "e2m1:tensor:fp32", "bf16", "e2m1:row:fp32", "e2m1bautof:none"})
    EXPECT_LE(largest(spec, {1 << 26}, Axis::last, 1 << 20), 1 << 20) << spec;
  for (const char* spec : {"mxfp4", "e2m1:row:fp32", "e2m1:2d16:e4m3", "e2m1:col:fp32"})
    for (const Axis axis : {Axis::last, Axis::first})
      EXPECT_LE(largest(spec, {1 << 16, 1 << 10}, axis, 1 << 20), 1 << 20) << spec;
  EXPECT_LE(largest("mxfp4", {4, 1 << 24}, Axis::last, 1 << 20), 1 << 20) << "long rows of whole blocks";
  EXPECT_EQ(largest("e2m1:col:e8m0/opt", {1 << 12, 1 << 10}, Axis::last, 1 << 20), 4 << 22) << "error of a column";
}

TEST(Cut, refuses_what_the_machine_cannot_hold_with_the_bytes) {
  const ValueType huge{DType::packed, {1 << 24, 1 << 20}, parse_quant_spec("e2m1:tensor:e8m0/opt"), Axis::last};
  const std::string error = fp4sim::testing::error_of<Error>([&] { cut_for_quantize(huge, 1 << 20); });
  EXPECT_NE(error.find("70368744177664 bytes of memory"), std::string::npos) << error;
  EXPECT_NO_THROW(cut_for_decode(huge, 1 << 30)) << "decoding needs the one scale only";
}

TEST(Statistics, of_values_worked_out_by_hand) {
  const auto backend = scalar::make_backend();
  const TempFolder folder;
  // one block, scale 1: 7 saturates to 6, 0.2 becomes 0, the rest is exact; another block is not finite
  std::vector<float> x(96, 0.0f);
  x[0] = 7, x[1] = 0.2f, x[2] = 3, x[3] = -1;
  x[40] = NAN, x[41] = 5;
  x[64] = 0x1p127f * 1.75f;  // e = 125: codes up to 6·2^125; 7·2^125 saturates
  io::write_npy(folder / "x.npy", io::make_f32({96}, x));
  const Result r = quantize_file(*backend, folder / "x.npy", folder / "q.safetensors",
                                 settings_of("mxfp4", Axis::last, 1 << 20, folder));
  EXPECT_EQ(r.stats.elements, 96);
  EXPECT_EQ(r.stats.saturated, 2);
  EXPECT_EQ(r.stats.flushed_to_zero, 1);
  EXPECT_EQ(r.stats.nonfinite_blocks, 1);
  EXPECT_EQ(r.stats.excluded, 32);
  EXPECT_EQ(r.stats.overflow_on_decode, 0);
  EXPECT_EQ(r.stats.stored_bytes, 48 + 3);
  x[64] = std::numeric_limits<float>::max();
  io::write_npy(folder / "x.npy", io::make_f32({96}, x));
  EXPECT_EQ(quantize_file(*backend, folder / "x.npy", folder / "q.safetensors",
                          settings_of("e2m1:b32:e8m0/ceil", Axis::last, 1 << 20, folder))
                .stats.overflow_on_decode,
            1);
  x.assign(32, 0.0f);
  x[0] = 7, x[1] = 0.2f, x[2] = 3, x[3] = -1;
  io::write_npy(folder / "x.npy", io::make_f32({32}, x));
  const Result small = quantize_file(*backend, folder / "x.npy", folder / "q.safetensors",
                                     settings_of("mxfp4", Axis::last, 1 << 20, folder));
  const double tenth = static_cast<double>(0.2f), dd = 1 + tenth * tenth, xx = 59 + tenth * tenth;
  EXPECT_EQ(small.stats.mse(), dd / 32);
  EXPECT_NEAR(small.stats.snr_db(), 10 * std::log10(xx / dd), 1e-12);
  EXPECT_NEAR(small.stats.cosine(), 52 / (std::sqrt(xx) * std::sqrt(46.0)), 1e-15);
  EXPECT_EQ(small.stats.bits_per_element(), 4.25);
}

TEST(Statistics, with_occ_count_the_residual_as_part_of_the_result) {
  const auto backend = scalar::make_backend();
  const TempFolder folder;
  io::write_npy(folder / "x.npy", io::make_f32({16, 128}, draw({16, 128}, false)));
  const auto mse = [&](const char* spec) {
    return quantize_file(*backend, folder / "x.npy", folder / "q.safetensors",
                         settings_of(spec, Axis::last, 1000, folder))
        .stats.mse();
  };
  const double plain = mse("e2m1:row:fp32"), clamped = mse("e2m1:row:fp32+occ(0.98,none,row)"),
               compensated = mse("e2m1:row:fp32+occ(0.98,fp32,row)");
  EXPECT_LT(compensated, plain);
  EXPECT_GT(clamped, compensated);
}

}  // namespace
}  // namespace fp4sim::cli
