// clip and adamw: element-wise, with what varies between steps read on the device. Many parameters share a launch; a
// gradient that only its adamw reads is clipped on the way and never stored.
#include "gpu/adamw.cuh"
#include "gpu/fusions.h"
#include "gpu/map.cuh"
#include "gpu/ops.h"

namespace fp4sim::gpu {
namespace {

struct ClipFactors {
  float unscale, f;
  __device__ float operator()(float g) const { return (g * unscale) * f; }
};
__device__ ClipFactors clip_factors(float norm, const StepInfo& step) {
  return {1.0f / step.loss_scale, norm > step.clip_norm ? step.clip_norm / norm : 1.0f};
}

__global__ void clip_kernel(const float* g, const float* norm, const StepInfo* step, float* y, int64_t n) {
  const int64_t i = thread_index() * kVector;
  if (i >= n) return;
  const ClipFactors clipped = clip_factors(*norm, *step);
  Four r = load_four(g, i, n);
  for (float& v : r.v) v = clipped(v);
  store_four(y, i, n, r);
}

constexpr int kMostParameters = 48;  // of one launch: their description travels as a kernel argument
constexpr int kUpdateThreads = 256, kUpdateElements = 2 * kVector * kUpdateThreads;  // of a block

struct Parameter {
  float *p, *m, *v;
  const float* g;
  int64_t n;
  int first_block;
  float weight_decay;
};

/// What a launch's parameters share, and they themselves.
struct Parameters {
  AdamwConstants constants;  // weight_decay is the parameter's
  const StepInfo* step;
  const float* norm;  // nullptr: the gradients are clipped already
  int count;
  Parameter list[kMostParameters];
};

__global__ void __launch_bounds__(kUpdateThreads) adamw_kernel(Parameters all) {
  if (all.step->skip != 0) return;
  const int block = static_cast<int>(blockIdx.x);
  int t = 0;
  for (int half = 32; half > 0; half /= 2)
    if (t + half < all.count && all.list[t + half].first_block <= block) t += half;
  const Parameter& a = all.list[t];
  const int64_t first = int64_t{block - a.first_block} * kUpdateElements + threadIdx.x * kVector;
  Four p[2], m[2], v[2], g[2];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int64_t i = first + part * kVector * kUpdateThreads;
    if (i >= a.n) continue;
    p[part] = load_four(a.p, i, a.n), m[part] = load_four(a.m, i, a.n), v[part] = load_four(a.v, i, a.n);
    g[part] = load_four(a.g, i, a.n);
  }
  __shared__ AdamwStep shared_step;
  __shared__ ClipFactors shared_factors;
  AdamwConstants constants = all.constants;
  constants.weight_decay = a.weight_decay;
  if (threadIdx.x == 0) {
    shared_step = adamw_step(constants, all.step->lr, all.step->beta1_power, all.step->beta2_power);
    if (all.norm != nullptr) shared_factors = clip_factors(*all.norm, *all.step);
  }
  __syncthreads();
  const AdamwStep step = shared_step;
  const ClipFactors clipped = shared_factors;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int64_t i = first + part * kVector * kUpdateThreads;
    if (i >= a.n) continue;
    for (int k = 0; k < kVector; ++k) {
      const float gradient = all.norm != nullptr ? clipped(g[part].v[k]) : g[part].v[k];
      adamw_update(constants, step, gradient, p[part].v[k], m[part].v[k], v[part].v[k]);
    }
    store_four(a.p, i, a.n, p[part]);
    store_four(a.m, i, a.n, m[part]);
    store_four(a.v, i, a.n, v[part]);
  }
}

/// adamw's last node of a chain; the clip before it may be there.
const BoundNode& update_of(const Chain& chain) { return chain.nodes.back(); }
bool clips(const Chain& chain) { return chain.nodes.size() == 2; }

AdamwConstants constants_of(const NodeCall& call) {
  const Attrs& attrs = call.node.attrs;
  const double beta1 = attrs.number("beta1"), beta2 = attrs.number("beta2");
  return {static_cast<float>(beta1),
          static_cast<float>(beta2),
          static_cast<float>(1.0 - beta1),
          static_cast<float>(1.0 - beta2),
          static_cast<float>(attrs.number("weight_decay")),
          static_cast<float>(attrs.number("eps"))};
}

Parameter parameter_of(const NodeCall& call, const float* g, int first_block) {
  return {out_data<float>(call, 0),
          out_data<float>(call, 1),
          out_data<float>(call, 2),
          g,
          count_out(call),
          first_block,
          static_cast<float>(call.node.attrs.number("weight_decay"))};
}

void launch_updates(Parameters& all, int64_t blocks, Context& context) {
  context.launch(adamw_kernel, Context::per_block(blocks, kUpdateThreads), all);
}

int64_t blocks_of(const NodeCall& call) { return ceil_div(count_out(call), kUpdateElements); }

void launch_chains(std::span<const Chain> chains, Context& context) {
  const NodeCall first = update_of(chains[0]).call();
  Parameters all{constants_of(first), in_data<StepInfo>(first, 4), nullptr, 0, {}};
  if (clips(chains[0])) all.norm = in_data<float>(chains[0].nodes[0].call(), 1);
  int64_t blocks = 0;
  for (const Chain& chain : chains) {
    const NodeCall update = update_of(chain).call();
    const float* g = clips(chain) ? in_data<float>(chain.nodes[0].call(), 0) : in_data<float>(update, 3);
    all.list[all.count++] = parameter_of(update, g, static_cast<int>(blocks));
    blocks += blocks_of(update);
  }
  launch_updates(all, blocks, context);
}

bool starts(const NodeCall& first) { return first.node.op == Op::clip || first.node.op == Op::adamw; }

/// adamw after the clip of its gradient, on the same step.
bool extends(const Chain& chain, const NodeCall& next) {
  const Node& clip = *chain.nodes.back().node;
  return clip.op == Op::clip && next.node.op == Op::adamw && next.node.inputs[3] == clip.outputs[0] &&
         next.node.inputs[4] == clip.inputs[2];
}

/// A gradient that others read too is stored by its own op.
bool complete(const Chain& chain) {
  return update_of(chain).node->op == Op::adamw && (chain.nodes.size() == 1 || !chain.stored[0]);
}

bool joins(const Chain& a, const Chain& b) {
  if (clips(a) != clips(b)) return false;
  const Node &x = *update_of(a).node, &y = *update_of(b).node;
  if (clips(a) && a.nodes[0].node->inputs[1] != b.nodes[0].node->inputs[1]) return false;
  if (x.inputs[4] != y.inputs[4]) return false;
  for (const char* name : {"beta1", "beta2", "eps"})
    if (x.attrs.number(name) != y.attrs.number(name)) return false;
  return true;
}

}  // namespace

const Fusion kOptimizer{.name = "optimizer",
                        .in_place = true,
                        .starts = starts,
                        .extends = extends,
                        .complete = complete,
                        .together = kMostParameters,
                        .joins = joins,
                        .launch = launch_chains};

namespace ops {

void clip(const NodeCall& call, Context& context) {
  const int64_t n = count_in(call, 0);
  context.launch(clip_kernel, context.per_item(ceil_div(n, kVector)), in_data<float>(call, 0), in_data<float>(call, 1),
                 in_data<StepInfo>(call, 2), out_data<float>(call), n);
}

void adamw(const NodeCall& call, Context& context) {
  Parameters all{constants_of(call), in_data<StepInfo>(call, 4), nullptr, 1, {}};
  all.list[0] = parameter_of(call, in_data<float>(call, 3), 0);
  launch_updates(all, blocks_of(call), context);
}

}  // namespace ops
}  // namespace fp4sim::gpu
