// sparse_matmul (§6): the residual's part of an outlier-compensated product, one fma chain an output.
#include <algorithm>
#include <cstring>

#include "reference/contract/host_backend.h"
#include "reference/simd/code_values.h"
#include "reference/simd/kernels_product.h"
#include "reference/simd/ops.h"
#include "reference/simd/product_operand.h"

namespace fp4sim::simd::ops {
namespace {

constexpr int64_t kTransposeTile = 32;
constexpr int64_t kGrain = 1 << 16;  // moved elements or multiply-adds that pay for waking a worker

/// ΔY of every entry as binary32: fl(code value·2^(scale−127)) for e4m3 residuals.
const float* entry_values(const Tensor& csr, int64_t entries, Arena& arena) {
  const ResidualFormat format = csr.type.spec.occ.residual;
  if (format == ResidualFormat::fp32) return in_data<float>(csr, 2);
  float* values = arena.take<float>(entries);
  if (format == ResidualFormat::bf16) {
    const uint16_t* from = in_data<uint16_t>(csr, 2);
    for (int64_t e = 0; e < entries; ++e) {
      const uint32_t bits = static_cast<uint32_t>(from[e]) << 16;
      std::memcpy(values + e, &bits, 4);
    }
  } else if (format == ResidualFormat::e4m3) {
    QuantSpec e8m0;
    e8m0.scale = ScaleFormat::e8m0;
    float scales[256], table[256];
    scale_byte_values(e8m0, scales);
    const float scale = scales[*in_data<uint8_t>(csr, 3)];
    for (uint32_t code = 0; code < 256; ++code) table[code] = static_cast<float>(code_value(kE4m3, code)) * scale;
    const uint8_t* from = in_data<uint8_t>(csr, 2);
    for (int64_t e = 0; e < entries; ++e) values[e] = table[from[e]];
  }
  return values;
}

/// to[c][r] = from[r][c], tile by tile.
void transpose(const float* from, int64_t rows, int64_t cols, float* to, const Context& context) {
  const int64_t tiles = kGrain / (kTransposeTile * cols + 1) + 1;
  parallel_for(context, rows, tiles * kTransposeTile, [&](int64_t begin, int64_t end) {
    for (int64_t r0 = begin; r0 < end; r0 += kTransposeTile)
      for (int64_t c0 = 0; c0 < cols; c0 += kTransposeTile)
        for (int64_t c = c0; c < std::min(cols, c0 + kTransposeTile); ++c)
          for (int64_t r = r0; r < std::min(end, r0 + kTransposeTile); ++r) to[c * rows + r] = from[r * cols + c];
  });
}

}  // namespace

void sparse_matmul(const NodeCall& call, const Context& context) {
  const Tensor &csr = call.in[0], &other = call.in[1];
  const int64_t vectors = vector_view(csr.type.shape, csr.type.axis).vectors;
  const OperandShape o = operand_shape(other.type, parse_axis(call.node.attrs.text("other_axis")));
  const int64_t n = o.vectors;
  float* y = out_data<float>(call.out[0]);
  if (vectors == 0 || n == 0) return;

  Arena& arena = Arena::fresh();
  const int64_t* row_ptr = in_data<int64_t>(csr, 0);
  const int32_t* col = in_data<int32_t>(csr, 1);
  const float* values = entry_values(csr, row_ptr[vectors], arena);
  const float* lines = in_data<float>(other);  // k outer: entry k reads one contiguous line
  if (o.k_inner) {
    float* turned = arena.take<float>(o.k * n);
    transpose(lines, n, o.k, turned, context);
    lines = turned;
  }
  const bool rows_are_a = call.node.attrs.text("side") == "a";
  float* rows = rows_are_a ? y : arena.take<float>(vectors * n);
  const ProductFinish& kernels = pick_product_finish(context.level);
  const int64_t work_per_row = (row_ptr[vectors] / vectors + 1) * n;
  parallel_for(context, vectors, kGrain / work_per_row + 1, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; ++v)
      kernels.sparse_row(values + row_ptr[v], col + row_ptr[v], row_ptr[v + 1] - row_ptr[v], lines, n, rows + v * n, n);
  });
  if (!rows_are_a) transpose(rows, vectors, n, y, context);
}

}  // namespace fp4sim::simd::ops
