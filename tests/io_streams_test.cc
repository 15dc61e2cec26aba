// Files in pieces: streams, layouts read without the data, and tensors read as binary32.
#include <filesystem>
#include <vector>

#include "cli/io/npy.h"
#include "cli/io/safetensors.h"
#include "cli/io/streams.h"
#include "cli/io/tensor_source.h"
#include "reference/contract/error.h"
#include "tests/bits.h"
#include "tests/temp_folder.h"

namespace fp4sim::io {
namespace {

using fp4sim::testing::error_of;
using fp4sim::testing::get_file;
using fp4sim::testing::put_file;
using fp4sim::testing::TempFolder;

int64_t files_in(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(OutputFile, appears_whole_on_commit_and_leaves_nothing_without) {
  const TempFolder folder;
  {
    OutputFile file(folder / "a");
    file.write(3, bytes_of("def"));
    file.write(0, bytes_of("abc"));
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    file.commit();
  }
  EXPECT_EQ(get_file(folder / "a"), "abcdef");
  {
    OutputFile file(folder / "a");
    file.write(0, bytes_of("x"));
  }
  EXPECT_EQ(get_file(folder / "a"), "abcdef");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(OutputFile, a_folder_or_a_missing_folder_is_an_error_at_once) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "d");
  EXPECT_NE(error_of<Error>([&] { OutputFile file(folder / "d"); }).find("folder"), std::string::npos);
  EXPECT_NE(error_of<Error>([&] { OutputFile file(folder / "none/a"); }).find("none/a"), std::string::npos);
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(InputFile, reads_anywhere_and_names_the_end) {
  const TempFolder folder;
  put_file(folder / "a", "0123456789");
  const InputFile file(folder / "a");
  std::string text(4, ' ');
  file.read(5, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "5678");
  EXPECT_NE(error_of<Error>([&] { file.read(8, std::as_writable_bytes(std::span(text))); }).find("byte 10"),
            std::string::npos);
}

TEST(ScratchFile, keeps_bytes_without_a_name) {
  const TempFolder folder;
  ScratchFile scratch(folder.path());
  scratch.write(1000000, bytes_of("abc"));
  EXPECT_EQ(files_in(folder.path()), 0);
  std::string text(4, ' ');
  scratch.read(999999, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, std::string("\0abc", 4));
}

TEST(SafetensorsWriter, writes_in_pieces_what_write_safetensors_writes_at_once) {
  const TempFolder folder;
  const std::map<std::string, HostTensor> tensors = {{"a", make_u8({3}, std::vector<uint8_t>{1, 2, 3})},
                                                     {"b", make_f32({2}, std::vector<float>{1, 2})},
                                                     {"c", make_f32({}, std::vector<float>{3})}};
  write_safetensors(folder / "whole.safetensors", tensors, {{"k", "v"}});
  SafetensorsWriter writer(folder / "pieces.safetensors",
                           {{"a", {FileType::u8, {3}}}, {"b", {FileType::f32, {2}}}, {"c", {FileType::f32, {}}}},
                           {{"k", "v"}});
  for (const auto& [name, tensor] : tensors)
    for (size_t i = tensor.bytes.size(); i-- > 0;)
      writer.write(name, static_cast<int64_t>(i), std::span(tensor.bytes).subspan(i, 1));
  EXPECT_THROW(writer.write("a", 3, bytes_of("x")), Error);
  EXPECT_THROW(writer.write("d", 0, {}), Error);
  writer.commit();
  EXPECT_EQ(get_file(folder / "pieces.safetensors"), get_file(folder / "whole.safetensors"));
  const SafetensorsHeader header = read_safetensors_header(InputFile(folder / "whole.safetensors"));
  EXPECT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.metadata.at("k"), "v");
}

TEST(SafetensorsHeader, of_a_stream_has_the_checks_of_the_whole_file) {
  const TempFolder folder;
  write_safetensors(folder / "a.safetensors", {{"a", make_f32({4}, std::vector<float>(4))}});
  const std::string good = get_file(folder / "a.safetensors");
  for (const std::string& bad : {good.substr(0, 4), good.substr(0, 20), good.substr(0, good.size() - 1), good + "x",
                                 std::string(100, '\xFF'), std::string()}) {
    put_file(folder / "b.safetensors", bad);
    EXPECT_NE(error_of<Error>([&] { read_safetensors_header(InputFile(folder / "b.safetensors")); }).find("b.safet"),
              std::string::npos);
  }
}

std::vector<float> read_pieces(const TensorSource& source, int64_t step) {
  const int64_t n = element_count(source.shape());
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t at = 0; at < n; at += step) source.read(at, std::min(step, n - at), values.data() + at);
  return values;
}

TEST(TensorSource, reads_every_type_and_order_in_pieces) {
  const TempFolder folder;
  HostTensor f16 = make_tensor(FileType::f16, {2, 3, 5}), bf16 = make_tensor(FileType::bf16, {7});
  for (size_t i = 0; i < 30; ++i) f16.as<uint16_t>()[i] = static_cast<uint16_t>(0x3C00 + 17 * i);
  for (size_t i = 0; i < 7; ++i) bf16.as<uint16_t>()[i] = static_cast<uint16_t>(0xBF80 + i);
  const HostTensor f32 = to_f32(f16);
  write_npy(folder / "c.npy", f32);
  write_npy(folder / "f.npy", f32, NpyOrder::fortran);
  write_npy(folder / "h.npy", f16, NpyOrder::fortran);
  write_safetensors(folder / "s.safetensors", {{"x.a", f16}, {"x.b", bf16}, {"y", f32}});
  const std::vector<float> want(f32.as<float>().begin(), f32.as<float>().end());
  for (const int64_t step : {1, 4, 30}) {
    for (const char* name : {"c", "f", "h"}) {
      const auto sources = open_tensors(folder / (std::string(name) + ".npy"), "");
      ASSERT_EQ(sources.size(), 1u);
      EXPECT_EQ(sources[0].name(), name);
      EXPECT_TRUE(test::same_bits(read_pieces(sources[0], step), want)) << name << " by " << step;
    }
    const auto sources = open_tensors(folder / "s.safetensors", "x.*");
    ASSERT_EQ(sources.size(), 2u);
    EXPECT_TRUE(test::same_bits(read_pieces(sources[0], step), want));
    EXPECT_EQ(read_pieces(sources[1], step)[1], bf16_to_f32(0xBF81));
  }
}

TEST(TensorSource, other_types_no_match_and_other_files_are_errors) {
  const TempFolder folder;
  write_safetensors(folder / "s.safetensors",
                    {{"ids", make_i64({2}, std::vector<int64_t>{1, 2})}, {"w", make_f32({1}, std::vector<float>{1})}});
  EXPECT_NE(error_of<Error>([&] { open_tensors(folder / "s.safetensors", ""); }).find("'ids' is I64"),
            std::string::npos);
  EXPECT_EQ(open_tensors(folder / "s.safetensors", "w").size(), 1u);
  EXPECT_NE(error_of<Error>([&] { open_tensors(folder / "s.safetensors", "q*"); }).find("q*"), std::string::npos);
  put_file(folder / "a.txt", "x");
  EXPECT_THROW(open_tensors(folder / "a.txt", ""), UsageError);
  put_file(folder / "a.npy", "x");
  EXPECT_THROW(open_tensors(folder / "a.npy", ""), Error);
}

}  // namespace
}  // namespace fp4sim::io
