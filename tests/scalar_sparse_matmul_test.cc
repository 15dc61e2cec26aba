// sparse_matmul: hand-written csr values, every residual format, both sides and axes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "reference/scalar/backend.h"
#include "tests/bits.h"
#include "tests/node_runner.h"

namespace fp4sim::test {
namespace {

/// A csr value of 3 vectors of 8 elements with the entries (0, 1), (0, 6), (2, 0), (2, 3), (2, 5); vector 1 is empty.
template <class T>
HostValue csr_value(const char* residual, Axis axis, std::vector<T> values, std::vector<uint8_t> scale = {}) {
  const std::string spec = fmt::format("e2m1:row:fp32:rne+occ(0.75,{},row)", residual);
  HostValue v{{DType::csr, axis == Axis::last ? Shape{3, 8} : Shape{8, 3}, parse_quant_spec(spec), axis}, {}};
  const auto capacity = static_cast<size_t>(csr_capacity(v.type));
  std::vector<int32_t> columns{1, 6, 0, 3, 5};
  columns.resize(capacity, 77), values.resize(capacity);  // beyond row_ptr's end nothing may be read
  v.parts = {to_bytes(std::vector<int64_t>{0, 2, 2, 5}), to_bytes(columns), to_bytes(values)};
  if (!scale.empty()) v.parts.push_back(to_bytes(scale));
  return v;
}

std::vector<float> sparse_matmul(const HostValue& csr, const HostValue& other, const char* side, const char* axis) {
  const auto backend = scalar::make_backend();
  return floats(run_node(*backend, Op::sparse_matmul, {csr, other}, {{"side", side}, {"other_axis", axis}})[0]);
}

const std::vector<float> kResiduals{0.3f, -1.7f, 5.5f, 0x1p-20f, -3.1f};
const std::vector<float> kOther{1.1f, 2.3f,  -0.7f, 9.1f, 0.2f, -4.4f, 3.3f,  0.9f,   // row 0
                                0.5f, -6.1f, 1.9f,  2.2f, 8.8f, 0.4f,  -7.7f, 1.3f};  // row 1

std::vector<float> chains(const std::vector<float>& r) {
  std::vector<float> y;
  for (const size_t row : {0u, 8u}) {
    const float* o = kOther.data() + row;
    y.push_back(std::fma(r[1], o[6], std::fma(r[0], o[1], 0.0f)));
    y.push_back(0.0f);
    y.push_back(std::fma(r[4], o[5], std::fma(r[3], o[3], std::fma(r[2], o[0], 0.0f))));
  }
  return y;  // (other rows, csr vectors)
}

std::vector<float> transposed(const std::vector<float>& x, size_t rows, size_t columns) {
  std::vector<float> y;
  for (size_t c = 0; c < columns; ++c)
    for (size_t r = 0; r < rows; ++r) y.push_back(x[r * columns + c]);
  return y;
}

TEST(SparseMatmul, is_one_fma_chain_an_element_on_either_side_and_axis) {
  const HostValue last = f32_value({2, 8}, kOther), first = f32_value({8, 2}, transposed(kOther, 2, 8));
  const std::vector<float> by_b = chains(kResiduals), by_a = transposed(by_b, 2, 3);
  for (const Axis axis : {Axis::last, Axis::first}) {
    const HostValue csr = csr_value("fp32", axis, kResiduals);
    EXPECT_TRUE(same_bits(sparse_matmul(csr, last, "b", "last"), by_b));
    EXPECT_TRUE(same_bits(sparse_matmul(csr, last, "a", "last"), by_a));
    EXPECT_TRUE(same_bits(sparse_matmul(csr, first, "b", "first"), by_b));
    EXPECT_TRUE(same_bits(sparse_matmul(csr, first, "a", "first"), by_a));
  }
}

TEST(SparseMatmul, reads_bf16_residuals) {
  const std::vector<uint16_t> bits{0x3E9A, 0xBFDA, 0x40B0, 0x3580, 0xC046};
  std::vector<float> values;
  for (const uint16_t b : bits) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(b) << 16));
  EXPECT_TRUE(same_bits(sparse_matmul(csr_value("bf16", Axis::last, bits), f32_value({2, 8}, kOther), "b", "last"),
                        chains(values)));
}

TEST(SparseMatmul, reads_e4m3_residuals_with_their_power_of_two_scale) {
  const std::vector<uint8_t> codes{0x38, 0xB9, 0x7E, 0x01, 0x80};  // 1, −1.125, 448, 2^-9, −0
  const std::vector<float> values{1.0f, -1.125f, 448.0f, 0x1p-9f, -0.0f};
  for (const uint8_t scale : {uint8_t{0}, uint8_t{120}, uint8_t{127}, uint8_t{250}}) {
    std::vector<float> scaled;
    for (const float v : values) scaled.push_back(std::ldexp(v, scale - 127));
    const HostValue csr = csr_value("e4m3", Axis::last, codes, {scale});
    EXPECT_TRUE(same_bits(sparse_matmul(csr, f32_value({2, 8}, kOther), "b", "last"), chains(scaled))) << int{scale};
  }
}

TEST(SparseMatmul, a_nan_scale_gives_nan_where_there_are_entries) {
  const HostValue csr = csr_value("e4m3", Axis::last, std::vector<uint8_t>{0, 0, 0, 0, 0}, {0xFF});
  const std::vector<float> y = sparse_matmul(csr, f32_value({2, 8}, kOther), "b", "last");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(same_bits(y, {nan, 0.0f, nan, nan, 0.0f, nan}));
}

TEST(SparseMatmul, long_chains_are_not_cut_into_panels) {
  constexpr int64_t kLength = 4000;
  const QuantSpec spec = parse_quant_spec("e2m1:row:fp32:rne+occ(0.5,fp32,row)");
  HostValue csr{{DType::csr, {1, kLength}, spec, Axis::last}, {}};
  const int64_t capacity = csr_capacity(csr.type);
  std::vector<int32_t> columns;
  std::vector<float> values, other(kLength);
  for (int64_t k = 0; k < kLength; ++k) other[static_cast<size_t>(k)] = 1.0f + 0.001f * static_cast<float>(k);
  for (int64_t e = 0; e < capacity; ++e) {
    columns.push_back(static_cast<int32_t>(e));
    values.push_back(0.1f * static_cast<float>(e % 7) - 0.2f);
  }
  ASSERT_GT(capacity, 2048);
  csr.parts = {to_bytes(std::vector<int64_t>{0, capacity}), to_bytes(columns), to_bytes(values)};
  float acc = 0.0f;
  for (size_t e = 0; e < columns.size(); ++e) acc = std::fma(values[e], other[e], acc);
  EXPECT_TRUE(same_bits(sparse_matmul(csr, f32_value({1, kLength}, other), "a", "last"), {acc}));
}

}  // namespace
}  // namespace fp4sim::test
