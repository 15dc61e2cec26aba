// sparse_matmul on every level against an oracle and against scalar.
#include "tests/simd_operands.h"

namespace fp4sim::test {
namespace {

HostValue random_csr(Random& random, const Shape& shape, const QuantSpec& spec, Axis axis) {
  HostValue v{{DType::csr, shape, spec, axis}, {}};
  for (const PartLayout& layout : part_layouts(v.type)) v.parts.emplace_back(static_cast<size_t>(layout.bytes));
  const VectorView view = vector_view(shape, axis);
  const int64_t capacity = csr_capacity(v.type);
  std::vector<int64_t> row_ptr{0};
  std::vector<int32_t> col(static_cast<size_t>(capacity), 0);
  for (int64_t row = 0; row < view.vectors; ++row) {
    int64_t entries = row_ptr.back();
    const bool none = spec.occ.residual == ResidualFormat::none;
    const int64_t limit = none ? 0 : capacity * (row + 1) / view.vectors;
    for (int64_t k = 0; k < view.length && entries < limit; ++k)
      if (random() % 3 == 0) col[static_cast<size_t>(entries++)] = static_cast<int32_t>(k);
    row_ptr.push_back(entries);
  }
  v.parts[0] = to_bytes(row_ptr), v.parts[1] = to_bytes(col);
  if (spec.occ.residual == ResidualFormat::fp32) {
    v.parts[2] = to_bytes(random_floats(random(), capacity, kFills[random() % 3]));
  } else {
    for (std::byte& b : v.parts[2]) b = static_cast<std::byte>(random());
  }
  if (v.parts.size() == 4) v.parts[3][0] = static_cast<std::byte>(random() % 4 == 0 ? random() : 110 + random() % 30);
  return v;
}

float oracle_residual(const HostValue& csr, size_t entry) {
  if (csr.type.spec.occ.residual == ResidualFormat::fp32) return floats(csr, 2)[entry];
  if (csr.type.spec.occ.residual == ResidualFormat::bf16)
    return std::bit_cast<float>(static_cast<uint32_t>(elements<uint16_t>(csr, 2)[entry]) << 16);
  QuantSpec e8m0;
  e8m0.scale = ScaleFormat::e8m0;
  return oracle_element(kE4m3, static_cast<uint32_t>(csr.parts[2][entry])).value * oracle_scale(e8m0, csr.parts[3], 0);
}

std::vector<float> oracle_sparse(const HostValue& csr, const HostValue& other, Axis other_axis, bool side_a) {
  const OracleOperand o = oracle_operand(other, other_axis);
  const auto row_ptr = elements<int64_t>(csr);
  const auto col = elements<int32_t>(csr, 1);
  const auto vectors = static_cast<int64_t>(row_ptr.size()) - 1;
  std::vector<float> residuals;
  for (size_t e = 0; e < static_cast<size_t>(row_ptr.back()); ++e) residuals.push_back(oracle_residual(csr, e));
  std::vector<float> y(static_cast<size_t>(vectors * o.vectors));
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t j = 0; j < o.vectors; ++j) {
      float acc = 0;
      for (auto e = static_cast<size_t>(row_ptr[static_cast<size_t>(v)]);
           e < static_cast<size_t>(row_ptr[static_cast<size_t>(v) + 1]); ++e)
        acc = std::fma(residuals[e], o.values[o.at(0, j, col[e])], acc);
      y[static_cast<size_t>(side_a ? v * o.vectors + j : j * vectors + v)] = acc;
    }
  return y;
}

TEST(SimdSparseMatmul, has_the_oracles_and_scalars_bits_on_every_level) {
  Random random(21);
  for (const char* text : {"mxfp4+occ(0.9,fp32)", "mxfp4+occ(0.9,bf16)", "mxfp4+occ(0.8,e4m3)",
                           "mxfp4+occ(0.95,fp32,tensor)", "mxfp4+occ(0.95,none)"})
    for (int i = 0; i < 12; ++i) {
      const int64_t vectors = 1 + static_cast<int64_t>(random() % 40), k = 1 + static_cast<int64_t>(random() % 90);
      const int64_t n = i % 3 == 0 ? 260 : 1 + static_cast<int64_t>(random() % 70);
      const Axis axis = i % 2 == 0 ? Axis::last : Axis::first, other_axis = i % 4 < 2 ? Axis::last : Axis::first;
      const bool side_a = i % 3 != 1;
      const HostValue csr =
          random_csr(random, axis == Axis::last ? Shape{vectors, k} : Shape{k, vectors}, parse_quant_spec(text), axis);
      const HostValue other = f32_value(other_axis == Axis::last ? Shape{n, k} : Shape{k, n},
                                        random_floats(random(), n * k, kFills[i % 3]));
      const Attrs attrs{{"side", std::string(side_a ? "a" : "b")}, {"other_axis", std::string(to_string(other_axis))}};
      ASSERT_TRUE(
          levels_give(oracle_sparse(csr, other, other_axis, side_a), Op::sparse_matmul, {csr, other}, attrs, {1, 2, 7}))
          << text << " case " << i;
      ASSERT_TRUE(levels_give_scalar_bits(Op::sparse_matmul, {csr, other}, attrs)) << text << " case " << i;
    }
}

TEST(SimdSparseMatmul, does_not_depend_on_the_number_of_threads) {
  Random random(4);
  const HostValue csr = random_csr(random, {300, 400}, parse_quant_spec("mxfp4+occ(0.9,fp32)"), Axis::last);
  const HostValue other = f32_value({310, 400}, random_floats(2, 310 * 400, Fill::ordinary));
  for (const bool side_a : {true, false}) {
    const Attrs attrs{{"side", std::string(side_a ? "a" : "b")}, {"other_axis", std::string("last")}};
    const std::vector<float> want = oracle_sparse(csr, other, Axis::last, side_a);
    ASSERT_TRUE(levels_give(want, Op::sparse_matmul, {csr, other}, attrs, {1, 2, 7}));
  }
}

}  // namespace
}  // namespace fp4sim::test
