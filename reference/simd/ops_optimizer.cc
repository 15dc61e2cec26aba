// mean, norm, clip and adamw: whole tensors in pieces.
#include <cmath>
#include <vector>

#include "reference/contract/reduction_order.h"
#include "reference/contract/step_info.h"
#include "reference/simd/kernels_elementwise.h"
#include "reference/simd/kernels_optimizer.h"
#include "reference/simd/ops_support.h"

namespace fp4sim::simd::ops {
namespace {

using ChunkSums = void (*)(const float* x, float* sums, int64_t n);

/// One result for every chunk of x.
std::vector<float> chunk_results(const Context& context, const float* x, int64_t n, ChunkSums kernel) {
  std::vector<float> sums(static_cast<size_t>((n + kRowChunk - 1) / kRowChunk));
  float* out = sums.data();
  parallel_for(context, n, 4 * kRowChunk,
               [=](int64_t begin, int64_t end) { kernel(x + begin, out + begin / kRowChunk, end - begin); });
  return sums;
}

/// rowsum of the whole tensor: chunk results are reduced by the same rule until one is left.
float whole_sum(const Context& context, const float* x, int64_t n, ChunkSums kernel) {
  if (n == 0) return 0.0f;
  std::vector<float> sums = chunk_results(context, x, n, kernel);
  while (sums.size() > 1)
    sums = chunk_results(context, sums.data(), static_cast<int64_t>(sums.size()),
                         pick_optimizer_kernels(context.level).chunk_sums);
  return sums[0];
}

AdamwStep adamw_step(const Attrs& attrs, const StepInfo& step) {
  const double beta1 = attrs.number("beta1"), beta2 = attrs.number("beta2");
  const float decay = static_cast<float>(step.lr) * static_cast<float>(attrs.number("weight_decay"));
  return {.decay = 1.0f - decay,
          .beta1 = static_cast<float>(beta1),
          .rest1 = static_cast<float>(1.0 - beta1),
          .beta2 = static_cast<float>(beta2),
          .rest2 = static_cast<float>(1.0 - beta2),
          .rate = static_cast<float>(step.lr / (1.0 - step.beta1_power)),
          .root = static_cast<float>(std::sqrt(1.0 - step.beta2_power)),
          .eps = static_cast<float>(attrs.number("eps"))};
}

}  // namespace

void mean(const NodeCall& call, const Context& context) {
  const int64_t n = count_in(call, 0);
  *f32_out(call) =
      whole_sum(context, f32_in(call, 0), n, pick_optimizer_kernels(context.level).chunk_sums) / static_cast<float>(n);
}

void norm(const NodeCall& call, const Context& context) {
  const auto kernel = pick_optimizer_kernels(context.level).chunk_squares;
  float acc = 0.0f;
  for (size_t i = 0; i < call.in.size(); ++i)
    acc = acc + whole_sum(context, f32_in(call, i), count_in(call, i), kernel);
  *f32_out(call) = std::sqrt(acc);
}

void clip(const NodeCall& call, const Context& context) {
  const auto kernel = pick_elementwise_kernels(context.level).scale_twice;
  const StepInfo& step = *in_data<StepInfo>(call.in[2]);
  const float total = *f32_in(call, 1);
  const float factor = total > step.clip_norm ? step.clip_norm / total : 1.0f;
  const float unscale = 1.0f / step.loss_scale;
  const float* g = f32_in(call, 0);
  float* y = f32_out(call);
  parallel_for(context, count_in(call, 0), kGrain,
               [=](int64_t begin, int64_t end) { kernel(g + begin, unscale, factor, y + begin, end - begin); });
}

void adamw(const NodeCall& call, const Context& context) {
  const StepInfo& info = *in_data<StepInfo>(call.in[4]);
  if (info.skip != 0) return;
  const auto kernel = pick_optimizer_kernels(context.level).adamw;
  const AdamwStep step = adamw_step(call.node.attrs, info);
  const float* g = f32_in(call, 3);
  float *p = f32_out(call, 0), *m = f32_out(call, 1), *v = f32_out(call, 2);
  parallel_for(context, count_in(call, 0), kGrain, [=, &step](int64_t begin, int64_t end) {
    kernel(step, g + begin, p + begin, m + begin, v + begin, end - begin);
  });
}

}  // namespace fp4sim::simd::ops
