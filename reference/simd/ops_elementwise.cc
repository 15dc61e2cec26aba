// add, mul, scale and the activations: ranges of elements to threads.
#include <vector>

#include "reference/simd/kernels_elementwise.h"
#include "reference/simd/ops_support.h"

namespace fp4sim::simd::ops {
namespace {

using Binary = void (*)(const float* x, const float* b, float* y, int64_t n);

/// y[i] = kernel(x[i], b[i mod |b|]). A short b is repeated in memory so that kernels see long ranges.
void broadcast(const NodeCall& call, const Context& context, Binary kernel) {
  constexpr int64_t kShort = 1024;
  const float *x = f32_in(call, 0), *b = f32_in(call, 1);
  float* y = f32_out(call);
  const int64_t n = count_in(call, 0);
  int64_t period = count_in(call, 1);
  if (n == 0) return;
  std::vector<float> repeated;
  if (period < kShort && period < n) {
    const int64_t copies = (kShort + period - 1) / period;
    repeated.reserve(static_cast<size_t>(copies * period));
    for (int64_t copy = 0; copy < copies; ++copy) repeated.insert(repeated.end(), b, b + period);
    b = repeated.data();
    period *= copies;
  }
  parallel_for(context, n, kGrain, [=](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t offset = begin % period, length = std::min(period - offset, end - begin);
      kernel(x + begin, b + offset, y + begin, length);
      begin += length;
    }
  });
}

void map(const NodeCall& call, const Context& context, void (*kernel)(const float* x, float* y, int64_t n)) {
  const float* x = f32_in(call, 0);
  float* y = f32_out(call);
  parallel_for(context, count_in(call, 0), kGrain / 4,
               [=](int64_t begin, int64_t end) { kernel(x + begin, y + begin, end - begin); });
}

void map_gradient(const NodeCall& call, const Context& context, Binary kernel) {
  const float *dy = f32_in(call, 0), *x = f32_in(call, 1);
  float* dx = f32_out(call);
  parallel_for(context, count_in(call, 0), kGrain / 4,
               [=](int64_t begin, int64_t end) { kernel(dy + begin, x + begin, dx + begin, end - begin); });
}

}  // namespace

void add(const NodeCall& call, const Context& context) {
  broadcast(call, context, pick_elementwise_kernels(context.level).add);
}
void mul(const NodeCall& call, const Context& context) {
  broadcast(call, context, pick_elementwise_kernels(context.level).mul);
}

void scale(const NodeCall& call, const Context& context) {
  const auto kernel = pick_elementwise_kernels(context.level).scale;
  const auto factor = static_cast<float>(call.node.attrs.number("factor"));
  const float* x = f32_in(call, 0);
  float* y = f32_out(call);
  parallel_for(context, count_in(call, 0), kGrain,
               [=](int64_t begin, int64_t end) { kernel(x + begin, factor, y + begin, end - begin); });
}

void silu(const NodeCall& call, const Context& context) {
  map(call, context, pick_elementwise_kernels(context.level).silu);
}
void gelu(const NodeCall& call, const Context& context) {
  map(call, context, pick_elementwise_kernels(context.level).gelu);
}
void silu_grad(const NodeCall& call, const Context& context) {
  map_gradient(call, context, pick_elementwise_kernels(context.level).silu_grad);
}
void gelu_grad(const NodeCall& call, const Context& context) {
  map_gradient(call, context, pick_elementwise_kernels(context.level).gelu_grad);
}

}  // namespace fp4sim::simd::ops
