// .npy files: both orders, the three types, and malformed files.
#include "cli/io/npy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "cli/io/files.h"
#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::io {
namespace {

using testing::error_of;
using testing::get_file;
using testing::put_file;
using testing::TempFolder;

std::string npy(const std::string& dictionary, const std::string& data, int major = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(dictionary.size() >> (8 * i));
  return file + dictionary + data;
}

RC_GTEST_PROP(Npy, every_shape_type_and_order_survives_a_round_trip, ()) {
  const TempFolder folder;
  const auto axes = *rc::gen::inRange<size_t>(0, 5);
  Shape shape;
  for (size_t i = 0; i < axes; ++i) shape.push_back(*rc::gen::inRange<int64_t>(0, 5));
  const FileType type = *rc::gen::element(FileType::f32, FileType::f16, FileType::i32);
  HostTensor tensor = make_tensor(type, shape);
  for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(i * 29 + 3);
  for (const NpyOrder order : {NpyOrder::c, NpyOrder::fortran}) {
    write_npy(folder / "a.npy", tensor, order);
    RC_ASSERT(read_npy(folder / "a.npy") == tensor);
    RC_ASSERT((get_file(folder / "a.npy").size() - tensor.bytes.size()) % 64 == 0u);
  }
}

TEST(Npy, a_fortran_file_holds_columns) {
  const TempFolder folder;
  std::vector<float> values = {0, 1, 2, 3, 4, 5};  // (2, 3)
  write_npy(folder / "f.npy", make_f32({2, 3}, values), NpyOrder::fortran);
  const std::string file = get_file(folder / "f.npy");
  float stored[6];
  std::memcpy(stored, file.data() + file.size() - 24, 24);
  const float expected[6] = {0, 3, 1, 4, 2, 5};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(stored[i], expected[i]);
  EXPECT_NE(file.find("'fortran_order': True, 'shape': (2, 3), }"), std::string::npos);
}

TEST(Npy, shapes_are_spelled_as_python_tuples) {
  const TempFolder folder;
  write_npy(folder / "a.npy", make_f32({}, std::vector<float>{1}));
  EXPECT_NE(get_file(folder / "a.npy").find("'shape': (), }"), std::string::npos);
  write_npy(folder / "a.npy", make_f32({1}, std::vector<float>{1}));
  EXPECT_NE(get_file(folder / "a.npy").find("'shape': (1,), }"), std::string::npos);
}

TEST(Npy, versions_1_2_and_3_and_both_quotes_are_read) {
  const TempFolder folder;
  for (const int major : {1, 2, 3}) {
    put_file(folder / "v.npy",
             npy("{\"descr\": \"<i4\", 'shape': (1,), 'fortran_order': False}\n", std::string(4, '\1'), major));
    EXPECT_EQ(read_npy(folder / "v.npy").as<int32_t>()[0], 0x01010101);
  }
}

TEST(Npy, a_file_cut_or_extended_at_any_byte_is_rejected) {
  const TempFolder folder;
  write_npy(folder / "a.npy", make_f32({3}, std::vector<float>{1, 2, 3}));
  const std::string whole = get_file(folder / "a.npy");
  for (size_t length = 0; length < whole.size(); ++length) {
    put_file(folder / "cut.npy", whole.substr(0, length));
    EXPECT_NE(error_of<Error>([&] { read_npy(folder / "cut.npy"); }).find("cut.npy"), std::string::npos) << length;
  }
  put_file(folder / "cut.npy", whole + "x");
  EXPECT_NE(error_of<Error>([&] { read_npy(folder / "cut.npy"); }), "");
}

TEST(Npy, malformed_headers_are_rejected) {
  const TempFolder folder;
  const std::string data(4, '\0');
  const char* dictionaries[] = {
      "",
      "{",
      "{}",
      "[]",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967297)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
      "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
      "{'descr: <f4",
  };
  for (const char* dictionary : dictionaries) {
    put_file(folder / "bad.npy", npy(dictionary, data));
    const std::string message = error_of<Error>([&] { read_npy(folder / "bad.npy"); });
    EXPECT_NE(message.find("bad.npy"), std::string::npos) << dictionary << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  put_file(folder / "bad.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", data, 4));
  EXPECT_NE(error_of<Error>([&] { read_npy(folder / "bad.npy"); }), "");
}

TEST(Npy, other_types_are_not_written) {
  const TempFolder folder;
  EXPECT_NE(error_of<Error>([&] { write_npy(folder / "a.npy", make_tensor(FileType::u8, {1})); }).find("not U8"),
            std::string::npos);
}

TEST(HostTensor, every_half_precision_pattern_converts_exactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const int fraction = static_cast<int>(bits & 1023);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(static_cast<double>(std::fabs(value)), magnitude);
    }
    EXPECT_EQ(std::signbit(value), bits >> 15 == 1);
    EXPECT_EQ(std::bit_cast<uint32_t>(bf16_to_f32(static_cast<uint16_t>(bits))), bits << 16);
  }
}

TEST(HostTensor, integer_tensors_do_not_become_floats_and_sizes_are_checked) {
  EXPECT_NE(error_of<Error>([] { to_f32(make_tensor(FileType::i32, {1})); }), "");
  EXPECT_NE(error_of<Error>([] { make_f32({2}, std::vector<float>{1}); }), "");
  EXPECT_NE(error_of<Error>([] { (void)make_tensor(FileType::f32, {1}).as<double>(); }), "");
  EXPECT_NE(error_of<Error>([] { make_tensor(FileType::f32, {INT64_MAX, 2}); }), "");
  EXPECT_EQ(make_tensor(FileType::f32, {INT64_MAX, 0, INT64_MAX}).bytes.size(), 0u);
  const HostTensor wide{FileType::f64, {1}, std::vector<std::byte>(8)};
  EXPECT_EQ(to_f32(wide).as<float>()[0], 0.0f);
}

}  // namespace
}  // namespace fp4sim::io
