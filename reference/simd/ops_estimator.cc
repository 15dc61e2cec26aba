// estimator_grad of the simd backend (numerics.md §5): y again from x and the stored scales, then dx = fl(dy·m(y)).
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_layout.h"
#include "reference/simd/quant_plan.h"

namespace fp4sim::simd {
namespace {

struct Gradient {
  const float *dy, *x;
  const std::byte* scales;  // nullptr for unscaled specs
  int64_t scale_bytes;
  float* dx;
  ScalePlan scale_plan;
  Scaling scaling;
  float max_normal;
  const EstimatorPlan& plan;
  const Context& context;

  void run(const RunLayout& layout) const {
    const EstimatorKernels& kernels = pick_estimator_kernels(context.level);
    const ScaleKernels& scale = pick_scale_kernels(context.level);
    parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      std::vector<float> factors(static_cast<size_t>(layout.most_blocks()));
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        if (scales != nullptr)
          scale.encode_factors(scale_plan, scales + r.scales * scale_bytes, layout.blocks(r), factors.data());
        kernels.gradient(plan, scaling, max_normal, dy + r.begin, x + r.begin, r.n, {factors.data(), layout.block()},
                         dx + r.begin);
      }
    });
  }

  void run(const TileLayout& layout) const {
    const EstimatorKernels& kernels = pick_estimator_kernels(context.level);
    const ScaleKernels& scale = pick_scale_kernels(context.level);
    parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      std::vector<float> factors(TileLayout::kColumns);
      for (int64_t i = begin; i < end; ++i) {
        const Tile t = layout.tile(i);
        scale.encode_factors(scale_plan, scales + t.scales * scale_bytes, t.cols, factors.data());
        for (int64_t row = 0; row < t.rows; ++row) {
          const int64_t at = t.begin + row * layout.stride();
          kernels.gradient(plan, scaling, max_normal, dy + at, x + at, t.cols, {factors.data(), 0}, dx + at);
        }
      }
    });
  }
};

}  // namespace

void ops::estimator_grad(const NodeCall& call, const Context& context) {
  const Tensor& q = call.in[2];
  const QuantSpec& spec = q.type.spec;
  const EstimatorTables tables(parse_estimator(call.node.attrs.text("estimator")), spec.element);
  const Gradient gradient{in_data<float>(call.in[0]),
                          in_data<float>(call.in[1]),
                          is_unscaled(spec) ? nullptr : in_data<std::byte>(q, 1),
                          spec.scale == ScaleFormat::fp32 ? 4 : 1,
                          out_data<float>(call.out[0]),
                          stored_scale_plan(spec, q),
                          scaling_of(spec),
                          static_cast<float>(max_normal_value(spec.element)),
                          tables.plan,
                          context};
  if (TileLayout::fits(q.type)) return gradient.run(TileLayout(q.type));
  gradient.run(RunLayout(q.type));
}

}  // namespace fp4sim::simd
