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

struct SoftForward {
  const float* x;
  const std::byte* scales;  // nullptr for unscaled specs
  int64_t scale_bytes;
  float* out;
  ScalePlan scale_plan;
  const float* d;
  Scaling scaling;
  float max_normal;
  const EstimatorPlan& plan;
  const Context& context;

  /// Factors of encode and of decode for n scales from `first` on.
  void factors(int64_t first, int64_t n, std::vector<float>& encode, std::vector<float>& decode) const {
    if (scales == nullptr) return;
    const ScaleKernels& scale = pick_scale_kernels(context.level);
    scale.encode_factors(scale_plan, scales + first * scale_bytes, n, encode.data());
    scale.decode_factors(scale_plan, scales + first * scale_bytes, n, decode.data());
  }

  void segment(int64_t at, int64_t n, int64_t block, const float* encode, const float* decode) const {
    pick_estimator_kernels(context.level)
        .soft_forward(plan, scaling, max_normal, x + at, n, {encode, block}, {decode, block}, d, out + at);
  }

  void run(const RunLayout& layout) const {
    parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      std::vector<float> encode(static_cast<size_t>(layout.most_blocks())), decode = encode;
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        factors(r.scales, layout.blocks(r), encode, decode);
        segment(r.begin, r.n, layout.block(), encode.data(), decode.data());
      }
    });
  }

  void run(const TileLayout& layout) const {
    parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      std::vector<float> encode(TileLayout::kColumns), decode = encode;
      for (int64_t i = begin; i < end; ++i) {
        const Tile t = layout.tile(i);
        factors(t.scales, t.cols, encode, decode);
        for (int64_t row = 0; row < t.rows; ++row)
          segment(t.begin + row * layout.stride(), t.cols, 0, encode.data(), decode.data());
      }
    });
  }
};

}  // namespace

void ops::soft_forward(const NodeCall& call, const Context& context) {
  const Tensor& q = call.in[1];
  const QuantSpec& spec = q.type.spec;
  const EstimatorTables tables(parse_estimator(call.node.attrs.text("estimator")), spec.element);
  const SoftForward forward{in_data<float>(call.in[0]),
                            is_unscaled(spec) ? nullptr : in_data<std::byte>(q, 1),
                            spec.scale == ScaleFormat::fp32 ? 4 : 1,
                            out_data<float>(call.out[0]),
                            stored_scale_plan(spec, q),
                            has_tensor_scale(spec) ? in_data<float>(q, 2) : nullptr,
                            scaling_of(spec),
                            static_cast<float>(max_normal_value(spec.element)),
                            tables.plan,
                            context};
  if (TileLayout::fits(q.type)) return forward.run(TileLayout(q.type));
  forward.run(RunLayout(q.type));
}

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
