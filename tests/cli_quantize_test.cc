// quantize, dequantize and formats as programs: files, metadata, statistics, round trips, bounded memory.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/io/npy.h"
#include "cli/io/safetensors.h"
#include "reference/contract/host_math.h"
#include "tests/bits.h"
#include "tests/run_program.h"

namespace fp4sim::cli {
namespace {

using fp4sim::testing::fp4sim;
using fp4sim::testing::Outcome;
using fp4sim::testing::TempFolder;
using Json = nlohmann::json;

std::vector<float> normal(int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i)] = static_cast<float>(host_math::normal64(1, 2, i));
  return x;
}

/// A command that must succeed; its stdout.
std::string ok(const std::string& arguments) {
  const Outcome outcome = fp4sim(arguments);
  EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
  EXPECT_EQ(outcome.err, "") << arguments;
  return outcome.out;
}

TEST(QuantizeCommand, writes_codes_scales_metadata_statistics_and_decoded_values) {
  const TempFolder folder;
  const std::string in = folder / "w.npy", out = folder / "q.safetensors", decoded = folder / "d.npy";
  // 6, 3, −1 and 0.25 with scale 1; in the second block everything is 2^-127·code
  std::vector<float> x(2 * 32, 0.0f);
  x[0] = 6, x[1] = 3, x[2] = -1, x[31] = 0.25f;
  x[32] = 0x1p-127f, x[33] = -0x1p-128f;
  io::write_npy(in, io::make_f32({2, 32}, x), io::NpyOrder::fortran);
  const std::string stats =
      ok("quantize " + in + " --spec mxfp4 --out " + out + " --decoded " + decoded + " --stats json");
  const io::SafetensorsFile file(out);
  ASSERT_EQ(file.tensors().size(), 2u);
  const io::HostTensor codes = file.read("w.codes"), scales = file.read("w.scales");
  EXPECT_EQ(codes.shape, (Shape{2, 16}));
  EXPECT_EQ(scales.shape, (Shape{2, 1}));
  EXPECT_EQ(codes.as<uint8_t>()[0], 0x57) << "even index in the low nibble";
  EXPECT_EQ(codes.as<uint8_t>()[1], 0x0A);
  EXPECT_EQ(codes.as<uint8_t>()[15], 0x00) << "a tie to even: 0.25 becomes 0";
  EXPECT_EQ(codes.as<uint8_t>()[16], 0x92);
  EXPECT_EQ(scales.as<uint8_t>()[0], 127);
  EXPECT_EQ(scales.as<uint8_t>()[1], 0);
  const auto& metadata = file.metadata();
  EXPECT_EQ(metadata.at("spec"), "e2m1:b32:e8m0/floor:rne");
  EXPECT_EQ(metadata.at("axis"), "last");
  EXPECT_EQ(metadata.at("w.shape"), "[2,32]");
  EXPECT_EQ(metadata.at("scale_direction"), "decode multipliers");
  EXPECT_EQ(metadata.at("nibble_order"), "even index low");
  EXPECT_EQ(metadata.count("seed"), 0u);
  const io::HostTensor values = io::read_npy(decoded);
  EXPECT_EQ(values.shape, (Shape{2, 32}));
  EXPECT_EQ(values.as<float>()[2], -1.0f);
  EXPECT_EQ(values.as<float>()[33], -0x1p-128f);
  const Json total = Json::parse(stats).at("total"), tensor = Json::parse(stats).at("tensors").at("w");
  EXPECT_EQ(total, tensor);
  EXPECT_EQ(total.at("mse"), 0.0625 / 64);
  EXPECT_EQ(total.at("flushed_to_zero"), 1);
  EXPECT_EQ(total.at("bits_per_element"), 4.25);
}

TEST(QuantizeCommand, takes_tensors_by_pattern_and_every_type) {
  const TempFolder folder;
  io::HostTensor f16 = io::make_tensor(io::FileType::f16, {32}), bf16 = io::make_tensor(io::FileType::bf16, {32});
  for (size_t i = 0; i < 32; ++i) f16.as<uint16_t>()[i] = 0x3C00, bf16.as<uint16_t>()[i] = 0xC000;
  io::write_safetensors(folder / "in.safetensors", {{"l.0.w", io::make_f32({64}, normal(64))},
                                                    {"l.1.w", f16},
                                                    {"l.1.b", bf16},
                                                    {"ids", io::make_i64({1}, std::vector<int64_t>{1})}});
  const std::string command = "quantize " + (folder / "in.safetensors") +
                              " --spec nvfp4:sr32 --seed 7 --stream 8 --step 9 --out " + (folder / "q.safetensors");
  EXPECT_EQ(fp4sim(command).code, 1) << "I64";
  EXPECT_NE(ok(command + " --tensors 'l.*'").find("total"), std::string::npos);
  const io::SafetensorsFile all(folder / "q.safetensors");
  EXPECT_EQ(all.tensors().size(), 9u);
  EXPECT_EQ(all.read("l.1.w.tensor_scale").shape, Shape{});
  EXPECT_EQ(all.metadata().at("seed"), "7");
  EXPECT_EQ(all.metadata().at("stream"), "8");
  EXPECT_EQ(all.metadata().at("step"), "9");
  EXPECT_EQ(ok(command + " --tensors 'l.1.?' --stats none"), "");
  EXPECT_EQ(io::SafetensorsFile(folder / "q.safetensors").tensors().size(), 6u);
  ok("dequantize " + (folder / "q.safetensors") + " --out " + (folder / "d.safetensors"));
  const io::SafetensorsFile decoded(folder / "d.safetensors");
  EXPECT_EQ(decoded.read("l.1.w").as<float>()[31], 1.0f);
  EXPECT_EQ(decoded.read("l.1.b").as<float>()[0], -2.0f);
}

TEST(DequantizeCommand, gives_the_decoded_values_of_every_kind_in_pieces_too) {
  const TempFolder folder;
  io::write_npy(folder / "x.npy", io::make_f32({3, 48, 64}, normal(3 * 48 * 64)));
  io::write_npy(folder / "v.npy", io::make_f32({5000}, normal(5000)));
  for (const char* name : {"x", "v"})
    for (const char* spec :
         {"mxfp6e3m2", "nvfp4+had(16,philox)", "e2m1:row:fp32", "e2m1:col:e4m3/te", "e4m3:tensor:fp32/pow2",
          "e2m1:2d16:e4m3", "fp16", "e2m1bautof:none", "int8:b32:ue4m4/one", "e2m1:row:fp32+occ(0.9,e4m3,row)"})
      for (const char* axis : {"last", "first"}) {
        const bool vector = std::string(name) == "v";
        if (vector && (std::string(axis) == "first" || std::string(spec).find("had") != std::string::npos)) continue;
        const std::string in = folder / (std::string(name) + ".npy"), q = folder / "q.safetensors",
                          d = folder / "d.npy";
        ok("quantize " + in + " --stats none --spec '" + spec + "' --axis " + axis + " --out " + q + " --decoded " + d);
        const io::HostTensor want = io::read_npy(d);
        for (const char* piece : {"", " --piece-bytes 2000 --backend scalar"}) {
          ok("dequantize " + q + " --out " + (folder / "back.npy") + piece);
          EXPECT_EQ(io::read_npy(folder / "back.npy") == want, true) << name << " " << spec << " " << axis << piece;
        }
      }
}

TEST(DequantizeCommand, reads_ggml_blocks_and_quantize_writes_them) {
  const TempFolder folder;
  io::write_npy(folder / "x.npy", io::make_f32({4, 128}, normal(512)));
  for (const auto& [spec, shape] : {std::pair{"mxfp4", Shape{4, 4, 17}}, {"nvfp4", Shape{4, 2, 36}}}) {
    const std::string q = folder / "q.safetensors", d = folder / "d.npy";
    ok("quantize " + (folder / "x.npy") + " --layout ggml --spec " + spec + " --out " + q + " --decoded " + d);
    const io::SafetensorsFile file(q);
    EXPECT_EQ(file.tensors().size(), 1u);
    EXPECT_EQ(file.read("x.blocks").shape, shape);
    EXPECT_EQ(file.metadata().at("layout"), "ggml");
    ok("dequantize " + q + " --piece-bytes 300 --out " + (folder / "back.npy"));
    EXPECT_EQ(io::read_npy(folder / "back.npy") == io::read_npy(d), true);
  }
}

TEST(FormatsCommand, lists_spelled_formats_and_layouts_and_prints_user_formats_in_every_style) {
  const Json all = Json::parse(ok("formats --json"));
  EXPECT_EQ(all.at("formats spelled out").size(), 4u);
  EXPECT_EQ(all.at("ggml layouts")[1].at("block bytes"), 36);
  const Json user = Json::parse(ok("formats e2m1b-3f ue3m4 e3m0 --json"));
  EXPECT_EQ(user.at("e2m1b-3f")[0].at("max_normal"), 96.0);
  EXPECT_EQ(user.at("e2m1b-3f values").size(), 16u);
  EXPECT_EQ(user.at("ue3m4 values").size(), 128u);
  EXPECT_EQ(user.at("ue3m4 values")[127].at("value"), "NaN");
  EXPECT_EQ(user.at("e3m0")[0].at("min_positive"), 0.25);
  EXPECT_EQ(ok("formats ue2m0 --csv"), "code,bits,value\n0x00,00,0\n0x01,01,1\n0x02,10,2\n0x03,11,NaN\n");
}

TEST(QuantizeCommand, a_file_of_many_pieces_needs_the_memory_of_one) {
  const TempFolder folder;
  const std::string in = folder / "big.npy", q = folder / "q.safetensors", d = folder / "d.npy";
  constexpr int64_t kRows = 20480, kCols = 1024;  // 80 MiB, all but the last rows a hole of the file
  io::OutputFile file(in);
  const std::string header = io::npy_header(io::FileType::f32, {kRows, kCols}, io::NpyOrder::c, in);
  const std::vector<float> x = normal(kCols);
  file.write(0, io::bytes_of(header));
  file.write(static_cast<int64_t>(header.size()) + 4 * (kRows - 1) * kCols, std::as_bytes(std::span(x)));
  file.commit();
  // an address space below the file's own size
  const std::string limited = "-c 'ulimit -v 70000; exec \"$0\" \"$@\"' " + std::string(FP4SIM_PROGRAM);
  const auto run = [&](const std::string& arguments) {
    return std::system(
        ("GOMP_SPINCOUNT=1000 bash " + limited + " " + arguments + " > " + (folder / "out") + " 2>&1").c_str());
  };
  for (const char* spec : {"nvfp4+had(32,fixed16)", "e2m1:col:fp32"}) {
    EXPECT_EQ(run("quantize " + in + " --threads 1 --piece-bytes 1000000 --stats none --spec '" + spec + "' --out " +
                  q + " --decoded " + d),
              0)
        << spec << testing::get_file(folder / "out");
    EXPECT_EQ(run("dequantize " + q + " --threads 1 --piece-bytes 1000000 --out " + (folder / "back.npy")), 0)
        << spec << testing::get_file(folder / "out");
    EXPECT_EQ(testing::get_file(folder / "back.npy") == testing::get_file(d), true) << spec;
  }
}

}  // namespace
}  // namespace fp4sim::cli
