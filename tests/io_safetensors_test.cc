// safetensors: round trips, and every malformed header is one Error that names the file.
#include "cli/io/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::io {
namespace {

using testing::error_of;
using testing::get_file;
using testing::put_file;
using testing::TempFolder;

std::string with_length(const std::string& header, const std::string& data = {}) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  return file + header + data;
}

std::string rejection_of(const std::string& file) {
  return error_of<Error>([&] { parse_safetensors_header(bytes_of(file), "model.safetensors"); });
}

TEST(Safetensors, tensors_of_every_type_and_the_metadata_survive_a_round_trip) {
  const TempFolder folder;
  std::map<std::string, HostTensor> tensors;
  int64_t rows = 1;
  for (const FileTypeRow& row : kFileTypes) {
    HostTensor tensor = make_tensor(row.type, {rows++, 3});
    for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(i * 37 + 11);
    tensors[std::string("tensor.") + row.name] = tensor;
  }
  tensors["empty"] = make_tensor(FileType::f32, {4, 0, 2});
  tensors["scalar"] = make_f32({}, std::vector<float>{2.5f});
  const std::map<std::string, std::string> metadata = {{"format", "test"}, {"text", "a \"quoted\"\nline ✓"}};
  const std::string path = folder / "all.safetensors";
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.read(name), tensor) << name;
    EXPECT_EQ((8 + file.entry(name).begin) % file_type_bytes(tensor.type), 0) << name;
  }
}

TEST(Safetensors, a_file_without_tensors_is_valid) {
  const TempFolder folder;
  write_safetensors(folder / "none.safetensors", {});
  EXPECT_TRUE(SafetensorsFile(folder / "none.safetensors").tensors().empty());
}

TEST(Safetensors, nan_payloads_and_signed_zeros_are_kept) {
  const TempFolder folder;
  const std::vector<uint32_t> bits = {0x7FC00001u, 0xFF812345u, 0x80000000u, 0x7F800000u};
  HostTensor tensor = make_tensor(FileType::f32, {4});
  std::memcpy(tensor.bytes.data(), bits.data(), 16);
  write_safetensors(folder / "nan.safetensors", {{"w", tensor}});
  EXPECT_EQ(SafetensorsFile(folder / "nan.safetensors").read("w"), tensor);
}

TEST(Safetensors, equal_content_gives_equal_bytes) {
  const TempFolder folder;
  const std::map<std::string, HostTensor> tensors = {{"b", make_tensor(FileType::u8, {3})},
                                                     {"a", make_tensor(FileType::f32, {3})}};
  write_safetensors(folder / "1", tensors, {{"k", "v"}});
  write_safetensors(folder / "2", tensors, {{"k", "v"}});
  EXPECT_EQ(get_file(folder / "1"), get_file(folder / "2"));
}

TEST(Safetensors, a_file_cut_at_any_byte_is_rejected_with_its_name) {
  const TempFolder folder;
  const std::string path = folder / "whole.safetensors";
  write_safetensors(path, {{"a", make_tensor(FileType::f32, {5})}, {"b", make_tensor(FileType::u8, {7})}},
                    {{"k", "v"}});
  const std::string whole = get_file(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    put_file(folder / "cut", whole.substr(0, length));
    const std::string message = error_of<Error>([&] { SafetensorsFile(folder / "cut"); });
    EXPECT_NE(message.find(folder / "cut"), std::string::npos) << length << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  put_file(folder / "long", whole + "x");
  EXPECT_NE(error_of<Error>([&] { SafetensorsFile(folder / "long"); }), "");
}

struct BadHeader {
  const char* name;
  std::string header;
  std::string data;
  const char* says;
};

TEST(Safetensors, every_malformed_header_is_rejected_with_a_reason) {
  const std::string four(4, '\0');
  const std::string good = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const BadHeader rows[] = {
      {"empty", "", "", "begin with '{'"},
      {"array", "[1,2]", "", "begin with '{'"},
      {"open", "{", "", "malformed JSON"},
      {"comma", "{" + good + ",}", four, "malformed JSON"},
      {"two objects", "{}{}", "", "malformed JSON"},
      {"not utf-8", "{\"\xFF\":1}", "", "malformed JSON"},
      {"nul", std::string("{\0}", 3), "", "malformed JSON"},
      {"number entry", R"({"a":3})", "", "is not {dtype"},
      {"extra key", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", four, "is not {dtype"},
      {"no dtype", R"({"a":{"type":"F32","shape":[1],"data_offsets":[0,4]}})", four, "dtype"},
      {"dtype number", R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", four, "dtype"},
      {"unknown dtype", R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", four, "unknown dtype 'F33'"},
      {"shape text", R"({"a":{"dtype":"F32","shape":"1","data_offsets":[0,4]}})", four, "shape"},
      {"negative size", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four, "outside 0"},
      {"fraction", R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", four, "not a whole number"},
      {"2^64", R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}})", four, "not a whole"},
      {"2^63", R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", four, "outside 0"},
      {"1e999", R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}})", four, "malformed JSON"},
      {"overflow", R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", four, "too large"},
      {"overflow bytes", R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,4]}})", four,
       "too large"},
      {"one offset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", four, "2 numbers"},
      {"reversed", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four, "needs 4 bytes"},
      {"wrong bytes", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four, "needs 8 bytes"},
      {"beyond the end", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", four, "truncated"},
      {"hole", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", four + four, "belong to no tensor"},
      {"left over", "{" + good + "}", four + four, "the tensors cover 4"},
      {"overlap", "{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four, "overlaps"},
      {"part overlap",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       std::string(6, '\0'), "overlaps"},
      {"duplicate", "{" + good + "," + good + "}", four, "duplicated name 'a'"},
      {"duplicate key", R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four, "duplicated"},
      {"metadata list", R"({"__metadata__":[]})", "", "__metadata__"},
      {"metadata number", R"({"__metadata__":{"k":1}})", "", "metadata 'k'"},
      {"deep", "{\"a\":" + std::string(100000, '['), "", "nested too deeply"},
  };
  for (const BadHeader& row : rows) {
    const std::string message = rejection_of(with_length(row.header, row.data));
    EXPECT_NE(message.find(row.says), std::string::npos) << row.name << ": " << message;
    EXPECT_EQ(message.rfind("model.safetensors: ", 0), 0u) << row.name << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << row.name;
    EXPECT_LT(message.size(), 300u) << row.name;
  }
}

TEST(Safetensors, impossible_header_lengths_are_rejected) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'000}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string file(reinterpret_cast<const char*>(&length), 8);
    EXPECT_NE(rejection_of(file + "{}"), "") << length;
  }
}

RC_GTEST_PROP(Safetensors, changed_bytes_give_a_value_or_an_error_never_anything_else, ()) {
  std::string file = with_length(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )", std::string(8, 'x'));
  const auto changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, file.size());
    file[at] = static_cast<char>(*rc::gen::inRange(0, 256));
  }
  try {
    parse_safetensors_header(bytes_of(file), "changed");
  } catch (const Error&) {
  }
}

TEST(Safetensors, missing_names_and_inconsistent_tensors_are_errors) {
  const TempFolder folder;
  const std::string path = folder / "one.safetensors";
  write_safetensors(path, {{"a", make_tensor(FileType::f32, {1})}});
  const std::string message = error_of<Error>([&] { SafetensorsFile(path).read("b"); });
  EXPECT_EQ(message, path + ": no tensor named 'b'");
  HostTensor wrong = make_tensor(FileType::f32, {1});
  wrong.shape = {2};
  EXPECT_NE(error_of<Error>([&] { write_safetensors(path, {{"a", wrong}}); }), "");
  EXPECT_TRUE(SafetensorsFile(path).has("a")) << "a refused write leaves the old file";
}

}  // namespace
}  // namespace fp4sim::io
