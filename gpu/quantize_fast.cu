// Fused quantization: every thread reads eight neighbours with two 16-byte loads and writes their eight e2m1 codes with
// one 4-byte store; the lanes of a block find its amax by shuffles.
#include "gpu/fused_e2m1.cuh"
#include "gpu/quantize_fast.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kColumnThreads = 64;  // the rows that they read twice fit the first-level cache
constexpr int kItems = 2;           // groups of eight elements of one thread of the block kernels
/// The largest word of the `lanes` neighbouring lanes that share a block.
template <int lanes>
__device__ uint32_t block_max(uint32_t v) {
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2) v = max(v, __shfl_xor_sync(kAllLanes, v, distance));
  return v;
}

/// Codes of eight elements under one factor: y = fl(x·factor).
__device__ uint32_t codes_of(const Eight& e, float factor) {
  float y[kGroup];
#pragma unroll
  for (int i = 0; i < kGroup; ++i) y[i] = e.v[i] * factor;
  return encode_e2m1_rne(y);
}

/// Scales and codes of whole blocks of `block` elements that lie one after the other.
template <int block, bool two_level>
__global__ void __launch_bounds__(kThreads)
    quantize_blocks(const float* x, int64_t groups, Quantizer q, const TensorScales* tensor, uint32_t* codes,
                    uint8_t* scales) {
  constexpr int kLanes = block / kGroup;
  const int lane = threadIdx.x % kWarp;
  const int64_t first = thread_number() / kWarp * (kWarp * kItems) + lane;
  const TensorScales t = two_level ? *tensor : TensorScales{};
  Eight e[kItems] = {};
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (first + i * kWarp < groups) e[i] = load_eight(x + (first + i * kWarp) * kGroup);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t group = first + i * kWarp;
    const uint32_t amax = block_max<kLanes>(maximum_of(e[i]));
    if (group >= groups) continue;
    const BlockScale scale = block_scale<two_level>(amax, q, t);
    codes[group] = amax >= kF32Inf ? 0u : codes_of(e[i], scale.factor);
    if (lane % kLanes == 0) scales[group / kLanes] = scale.code;
  }
}

/// The tensor amax over finite blocks; each warp takes neighbouring groups so that a block stays in one warp.
template <int block>
__global__ void __launch_bounds__(kThreads) tensor_amax(const float* x, int64_t groups, uint32_t* maximum) {
  constexpr int kLanes = block / kGroup;
  const int lane = threadIdx.x % kWarp;
  uint32_t most = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t begin = thread_number() - lane; begin < groups; begin += stride) {
    const int64_t group = begin + lane;
    const uint32_t amax = block_max<kLanes>(group < groups ? maximum_of(load_eight(x + group * kGroup)) : 0u);
    if (amax < kF32Inf) most = max(most, amax);
  }
  most = warp_max(most);
  if (lane == 0 && most != 0) atomicMax(maximum, most);
}

/// Blocks that run down the columns: one thread takes a block of each of eight neighbouring columns, twice: for their
/// amax and for their codes. The second time the rows come from the caches.
template <bool two_level>
__global__ void __launch_bounds__(kColumnThreads)
    quantize_columns(const float* x, Layout l, Quantizer q, const TensorScales* tensor, uint32_t* codes,
                     uint64_t* scales) {
  const int64_t item = thread_number(), outer = quotient(item, l.groups), group = item - outer * l.groups;
  const int64_t matrix = quotient(outer, l.grid_rows), first_row = (outer - matrix * l.grid_rows) * l.row_step;
  if (item >= l.blocks / kGroup) return;
  const int rows = static_cast<int>(least(l.row_step, l.matrix_rows - first_row));
  const int64_t first_group = (matrix * l.matrix_rows + first_row) * l.groups + group;
  const float* from = x + first_group * kGroup;
  uint32_t most[kGroup] = {};
#pragma unroll 8
  for (int r = 0; r < rows; ++r) {
    const Eight e = load_eight(from + r * l.cols);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) most[i] = max(most[i], magnitude_bits(e.v[i]));
  }
  const TensorScales t = two_level ? *tensor : TensorScales{};
  float factors[kGroup];
  uint64_t bytes = 0;
  uint32_t finite = 0;  // a nibble of ones for each finite block; the codes of others are +0
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const BlockScale scale = block_scale<two_level>(most[i], q, t);
    factors[i] = scale.factor;
    bytes |= uint64_t{scale.code} << (8 * i);
    finite |= (most[i] < kF32Inf ? 0xFu : 0u) << (4 * i);
  }
  scales[item] = bytes;
#pragma unroll 8
  for (int r = 0; r < rows; ++r) {
    Eight e = load_eight(from + r * l.cols);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) e.v[i] = e.v[i] * factors[i];
    codes[first_group + r * l.groups] = encode_e2m1_rne(e.v) & finite;
  }
}

/// One block of threads a row: the row's amax, its scale, then the codes. The first groups of a row stay in registers.
__global__ void __launch_bounds__(kThreads)
    quantize_rows(const float* x, int64_t groups, Quantizer q, uint32_t* codes, float* scales) {
  constexpr int kHeld = 4;
  __shared__ uint32_t warps[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int64_t first_beyond = int64_t{kHeld} * threads + thread;
  const float* from = x + row * groups * kGroup;
  Eight held[kHeld] = {};
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (thread + i * threads < groups) held[i] = load_eight(from + int64_t{thread + i * threads} * kGroup);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) most = max(most, maximum_of(held[i]));
  for (int64_t group = first_beyond; group < groups; group += threads)
    most = max(most, maximum_of(load_eight(from + group * kGroup)));
  most = warp_max(most);
  if (thread % kWarp == 0) warps[thread / kWarp] = most;
  __syncthreads();
  for (int w = 0; w < threads / kWarp; ++w) most = max(most, warps[w]);

  const bool finite = most < kF32Inf;
  const float scale = finite ? fp32_scale(most, q) : canonical_nan();
  if (thread == 0) scales[row] = scale;
  const auto write = [&](int64_t group, const Eight& e) {
    float y[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) y[i] = e.v[i] / scale;  // beyond ±6 encode saturates as the clamp would
    codes[row * groups + group] = finite ? encode_e2m1_rne(y) : 0u;
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (thread + i * threads < groups) write(thread + i * threads, held[i]);
  for (int64_t group = first_beyond; group < groups; group += threads) write(group, load_eight(from + group * kGroup));
}

bool is_plain_e2m1(const QuantSpec& s) { return s.element == kE2m1 && s.rounding == Rounding::rne && !s.sr34; }

/// Blocks of 16 or 32 with scales that the fused kernels compute.
bool is_fused_block(const QuantSpec& s) {
  if (!is_plain_e2m1(s) || s.granularity != Granularity::block || (s.block_size != 16 && s.block_size != 32))
    return false;
  return s.scale == ScaleFormat::e8m0 ? s.rule != ScaleRule::opt
                                      : s.scale == ScaleFormat::e4m3 && s.rule == ScaleRule::te;
}

int64_t groups_of(const Layout& l) { return l.elements() / kGroup; }

Grid block_grid(int64_t groups) { return Context::per_block(ceil_div(groups, kThreads * kItems), kThreads); }

}  // namespace

bool fused_blocks_take(const ValueType& packed) {
  return is_fused_block(packed.spec) && packed.axis == Axis::last &&
         matrix_view(packed.shape).cols % packed.spec.block_size == 0;
}

bool fused_columns_take(const ValueType& packed) {
  return is_fused_block(packed.spec) && packed.axis == Axis::first && matrix_view(packed.shape).cols % kGroup == 0;
}

void fused_blocks(const QuantizeCall& call, Context& context) {
  const Layout& l = call.q.layout;
  const int64_t groups = groups_of(l);
  const bool two_level = call.q.tensor_scale != nullptr;
  const auto kernel = l.col_step == 16 ? (two_level ? quantize_blocks<16, true> : quantize_blocks<16, false>)
                                       : (two_level ? quantize_blocks<32, true> : quantize_blocks<32, false>);
  auto* codes = reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(call.q.codes));
  auto* scales = static_cast<uint8_t*>(const_cast<void*>(call.q.scales));
  context.launch(kernel, block_grid(groups), call.x, groups, call.q.quantizer, call.tensor, codes, scales);
}

void fused_tensor_amax(const float* x, const Layout& l, uint32_t* maximum, Context& context) {
  context.zero(maximum, 4);
  const int64_t groups = groups_of(l);
  const int64_t blocks = std::min<int64_t>(ceil_div(groups, kThreads), 8 * context.multiprocessors());
  context.launch(l.col_step == 16 ? tensor_amax<16> : tensor_amax<32>, Context::per_block(blocks, kThreads), x, groups,
                 maximum);
}

void fused_columns(const QuantizeCall& call, Context& context) {
  const Layout& l = call.q.layout;
  if (l.elements() == 0) return;
  const int64_t items = l.blocks / kGroup;
  auto* codes = reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(call.q.codes));
  auto* scales = static_cast<uint64_t*>(const_cast<void*>(call.q.scales));
  context.launch(call.q.tensor_scale != nullptr ? quantize_columns<true> : quantize_columns<false>,
                 Context::per_block(ceil_div(items, kColumnThreads), kColumnThreads), call.x, l, call.q.quantizer,
                 call.tensor, codes, scales);
}

bool fused_rows_take(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  const int64_t cols = matrix_view(packed.shape).cols;
  return is_plain_e2m1(s) && packed.axis == Axis::last && s.granularity == Granularity::row &&
         s.scale == ScaleFormat::fp32 && cols > 0 && cols % kGroup == 0;
}

void fused_rows(const QuantizeCall& call, Context& context) {
  const Layout& l = call.q.layout;
  auto* codes = reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(call.q.codes));
  auto* scales = static_cast<float*>(const_cast<void*>(call.q.scales));
  const auto threads = static_cast<int>(std::min<int64_t>(ceil_div(l.groups, kWarp) * kWarp, kThreads));
  context.launch(quantize_rows, Context::per_block(l.rows, threads), call.x, l.groups, call.q.quantizer, codes, scales);
}

}  // namespace fp4sim::gpu
