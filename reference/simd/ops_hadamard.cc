// hadamard of the simd backend (numerics.md §6): signs and plan, blocks over threads.
#include <cmath>

#include "reference/contract/host_backend.h"
#include "reference/contract/reduction_order.h"
#include "reference/simd/kernels_hadamard.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_plan.h"

namespace fp4sim::simd {
namespace {

HadamardPlan make_plan(const NodeCall& call, Level level) {
  const Attrs& attrs = call.node.attrs;
  HadamardPlan plan{};
  plan.n = static_cast<int32_t>(attrs.integer("n"));
  plan.inverse = attrs.integer_or("inverse", 0) != 0;
  plan.factor = 1.0f / std::sqrt(static_cast<float>(plan.n));
  const std::string& signs = attrs.text("signs");
  if (signs == "none") return plan;
  uint32_t words[4 + kPhiloxSlack] = {kHadamardFixedSigns};
  const bool random = signs == "philox";
  if (random) pick_encode_kernels(level).philox(random_bits(call, 1), 0, 4, words);
  for (uint32_t j = 0; j < static_cast<uint32_t>(plan.n); ++j) {
    const uint32_t negative = random ? words[j / 32] >> (j % 32) : words[0] >> (j % 16);
    plan.signs[j] = (negative & 1u) != 0 ? kF32SignBit : 0;
  }
  return plan;
}

}  // namespace

void ops::hadamard(const NodeCall& call, const Context& context) {
  const HadamardPlan plan = make_plan(call, context.level);
  const HadamardKernels& kernels = pick_hadamard_kernels(context.level);
  const VectorView view = vector_view(call.in[0].type.shape, parse_axis(call.node.attrs.text("axis")));
  const float* x = in_data<float>(call.in[0]);
  float* y = out_data<float>(call.out[0]);
  const int64_t blocks = view.vectors * view.length / plan.n;
  if (view.stride == 1) {
    parallel_for(context, blocks, 8192 / plan.n, [&](int64_t begin, int64_t end) {
      kernels.rows(plan, x + begin * plan.n, end - begin, y + begin * plan.n);
    });
    return;
  }
  // Blocks of n whole rows; their columns are cut into tiles.
  constexpr int64_t kColumns = 64;
  const int64_t cols = view.stride, tiles = (cols + kColumns - 1) / kColumns, slabs = cols > 0 ? blocks / cols : 0;
  parallel_for(context, slabs * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % tiles * kColumns;
      const int64_t at = i / tiles * plan.n * cols + column;
      kernels.columns(plan, x + at, cols, std::min(kColumns, cols - column), y + at);
    }
  });
}

}  // namespace fp4sim::simd
