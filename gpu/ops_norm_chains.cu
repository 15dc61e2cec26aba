// Residual sums with their layernorm as one kernel, and with the two quantizations of what it gives.
#include "gpu/element_chains.h"
#include "gpu/fused_dispatch.cuh"
#include "gpu/fusions.h"
#include "gpu/hopper.cuh"
#include "gpu/layernorm.cuh"
#include "gpu/quantize_tile.cuh"
#include "gpu/tiles.h"

namespace fp4sim::gpu {
namespace {

// ---- elements and layernorm ----

constexpr int64_t kNormHeld = 384;  // elements of a row: three other inputs beside it stay in registers

/// A warp for row `index` of s.n elements: the program, sum o adding operand o, then layernorm; put(i, y) takes element
/// i of the row.
template <int kPer, int kOperands, class Put>
__device__ inline void norm_row(const ElementProgram& program, const float* g, const float* b, const NormRows& s,
                                int64_t index, const Put& put) {
  using Values = typename HeldRow<kPer>::Values;
  const HeldRow<kPer> row(s.n);
  const int64_t first = index * s.n;
  Values x = row.values(program.x + first), others[kOperands];
#pragma unroll
  for (int o = 0; o < kOperands; ++o) {
    const int64_t period = program.others[o].period, groups = quotient(first, period);
    others[o] = row.values(program.others[o].x + (first - groups * period));
  }
#pragma unroll
  for (int o = 0; o < kOperands; ++o) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) x[k] = x[k] + others[o][k];
    float* sums = program.list[o].store;
    if (sums != nullptr) row.each([&](int k) { sums[first + row.at(k)] = x[k]; });
  }
  const Values gains = row.values(g), shifts = row.values(b);  // all before any of y is stored, else one by one
  const Centered xh = center_row(row, x, s);
  row.each([&](int k) { put(row.at(k), fma32(xh(x[k]), gains[k], shifts[k])); });
}

template <int kPer, int kOperands>
__global__ void __launch_bounds__(kRowThreads)
    elements_and_norm_kernel(ElementProgram program, const float* g, const float* b, float* ys, NormRows s) {
  const int64_t index = warp_index();
  if (index >= s.rows) return;
  float* y = ys + index * s.n;
  norm_row<kPer, kOperands>(program, g, b, s, index, [&](int i, float v) { y[i] = v; });
}

/// Residual sums: f32 throughout, other inputs of whole rows, rows that a warp holds.
bool starts_norm(const NodeCall& first) {
  return first.node.op == Op::add && first.in[0].type.dtype == DType::f32 && count_in(first, 0) > 0;
}

bool extends_norm(const Chain& chain, const NodeCall& next) {
  if (next.node.op != Op::layernorm || next.node.inputs[0] != chain.nodes.back().node->outputs[0]) return false;
  const int64_t n = matrix_view(next.in[0].type.shape).cols;
  if (n > kNormHeld) return false;
  for (const BoundNode& node : chain.nodes) {
    if (node.node->op != Op::add) return false;
    for (const Tensor& in : node.in)
      if (element_count(in.type.shape) % n != 0) return false;
  }
  return other_inputs(chain) <= kMostOperands;
}

bool complete_norm(const Chain& chain) { return chain.nodes.back().node->op == Op::layernorm; }

void launch_norm(std::span<const Chain> chains, Context& context) {
  const Chain& chain = chains[0];
  const NodeCall norm = chain.nodes.back().call();
  const NormRows s = norm_rows(norm, 0);
  const ElementProgram program = program_of(chain, chain.nodes.size() - 1);
  const auto launch = [&]<int kPer, int kOperands>(std::integral_constant<int, kPer>,
                                                   std::integral_constant<int, kOperands>) {
    context.launch(elements_and_norm_kernel<kPer, kOperands>, row_grid(s.rows), program, in_data<float>(norm, 1),
                   in_data<float>(norm, 2), out_data<float>(norm), s);
  };
  const auto with_operands = [&](auto per) {
    static_assert(kMostOperands == 3);
    if (program.operands == 1) return launch(per, std::integral_constant<int, 1>());
    if (program.operands == 2) return launch(per, std::integral_constant<int, 2>());
    launch(per, std::integral_constant<int, 3>());
  };
  if (s.n <= 128) return with_operands(std::integral_constant<int, 4>());
  if (s.n <= 256) return with_operands(std::integral_constant<int, 8>());
  with_operands(std::integral_constant<int, 12>());
}

// ---- the same and two quantizations ----

constexpr int kNormTileWarps = 12;  // a warp for each tile of 384 columns
constexpr int kNormTileOperands = 2;

/// What a block of threads quantizes: 32 rows of s.n elements that shared memory holds.
struct NormTiles {
  ScaleMaker maker;
  int block, block_shift;  // elements of a scale block, and their binary logarithm
  PackedTarget last, first;
};

/// A block of threads for 32 rows: a warp makes a row, then a tile. ys: nullptr if nobody else reads y.
template <int kPer, int kOperands>
__global__ void __launch_bounds__(kNormTileWarps* kWarp, 2)
    norm_tiles_kernel(ElementProgram program, const float* g, const float* b, float* ys, NormRows s, NormTiles tiles) {
  auto* y = reinterpret_cast<float*>(dynamic_shared());  // [kTileSide][n]
  const int n = static_cast<int>(s.n), warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t from = int64_t{blockIdx.x} * kTileSide;
  const int count = static_cast<int>(least(s.rows - from, kTileSide));
  for (int r = warp; r < count; r += kNormTileWarps)
    norm_row<kPer, kOperands>(program, g, b, s, from + r, [&](int i, float v) {
      y[r * n + i] = v;
      if (ys != nullptr) ys[(from + r) * n + i] = v;
    });
  __syncthreads();
  const int lane_row = lane / kLanesAcross * kLaneRows, shift = tiles.block_shift;
  const int rows = max(min(count - lane_row, kLaneRows), 0);
  const int64_t row = from + lane_row, grid_rows = (s.rows + tiles.block - 1) >> shift;
  for (int tile = warp; tile < n / kTileSide; tile += kNormTileWarps) {
    const int col = tile * kTileSide + lane % kLanesAcross * kVector;
    LaneTile values;
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r)
      values.row[r] = r < rows ? four_of(*reinterpret_cast<const float4*>(y + (lane_row + r) * n + col)) : Four{};
    const TilePlace place{row * n + col, n,
                          rows,          row * (n >> shift) + (col >> shift),
                          n >> shift,    row >> shift < grid_rows ? (row >> shift) * n + col : -1};
    quantize_tile<true, true>(values, place, tiles.block, tiles.maker, E2m1Nearest{}, tiles.last, E2m1Nearest{},
                              tiles.first);
  }
}

/// The number of sums before the chain's layernorm; the number of nodes if there is none.
size_t norm_of(const Chain& chain) {
  size_t k = 0;
  while (k < chain.nodes.size() && chain.nodes[k].node->op != Op::layernorm) ++k;
  return k;
}

bool reads_norm(const Chain& chain, const Node& next) {
  const size_t norm = norm_of(chain);
  if (norm == chain.nodes.size()) return false;
  const ValueId y = chain.nodes[norm].node->outputs[0];
  for (const BoundNode& node : chain.nodes)
    for (const ValueId v : node.node->outputs)
      if (std::ranges::count(next.inputs, v) != (v == y ? 1 : 0)) return false;
  return next.inputs[0] == y;
}

/// e2m1, rne, along the other axis than the quantization before.
bool extends_norm_tiles(const Chain& chain, const NodeCall& next) {
  if (next.node.op != Op::quantize || !tiles_quantize(next)) return false;
  const ValueType& packed = next.out[0].type;
  const MatrixView m = matrix_view(packed.shape);
  if (!(packed.spec.element == kE2m1) || packed.spec.rounding != Rounding::rne || uses_ieee(packed.spec)) return false;
  if (norm_of(chain) > kNormTileOperands || m.cols % kTileSide != 0) return false;
  if (!tiles_sum(m.matrices, m.rows, m.cols)) return false;
  const BoundNode& other = chain.nodes.back();
  if (other.node->op != Op::quantize) return true;
  return norm_of(chain) + 2 == chain.nodes.size() && other.out[0].type.axis != packed.axis &&
         other.out[0].type.spec == packed.spec;
}

bool complete_norm_tiles(const Chain& chain) { return norm_of(chain) + 3 == chain.nodes.size(); }

void launch_norm_tiles(std::span<const Chain> chains, Context& context) {
  const Chain& chain = chains[0];
  const size_t at = norm_of(chain);
  const NodeCall norm = chain.nodes[at].call();
  const NormRows s = norm_rows(norm, 0);
  const ElementProgram program = program_of(chain, at);
  NormTiles tiles{};
  for (size_t k = at + 1; k < chain.nodes.size(); ++k) {
    const ValueType& type = chain.nodes[k].out[0].type;
    const PackedView q = view_of(chain.nodes[k].out[0]);
    const PackedTarget target{const_cast<uint8_t*>(q.codes), static_cast<uint8_t*>(const_cast<void*>(q.scales))};
    (type.axis == Axis::last ? tiles.last : tiles.first) = target;
    tiles.maker = scale_maker_of(q.quantizer);
    tiles.block = type.spec.block_size;
  }
  tiles.block_shift = tiles.block == kWholeBlock ? 5 : 4;
  const auto launch = [&]<int kPer>(std::integral_constant<int, kPer>) {
    const auto kernel = program.operands == 1 ? norm_tiles_kernel<kPer, 1> : norm_tiles_kernel<kPer, kNormTileOperands>;
    context.launch(kernel,
                   Context::per_block(ceil_div(s.rows, kTileSide), kNormTileWarps * kWarp,
                                      kTileSide * s.n * static_cast<int64_t>(sizeof(float))),
                   program, in_data<float>(norm, 1), in_data<float>(norm, 2),
                   chain.stored[at] ? out_data<float>(norm) : nullptr, s, tiles);
  };
  if (s.n <= 128) return launch(std::integral_constant<int, 4>());
  if (s.n <= 256) return launch(std::integral_constant<int, 8>());
  launch(std::integral_constant<int, 12>());
}

}  // namespace

const Fusion kElementsAndNorm{.name = "elements and norm",
                              .from = &kElements,
                              .in_place = true,
                              .starts = starts_norm,
                              .extends = extends_norm,
                              .complete = complete_norm,
                              .launch = launch_norm};
const Fusion kNormTiles{.name = "norm and tiles",
                        .from = &kElementsAndNorm,
                        .in_place = false,
                        .starts = starts_norm,
                        .reads = reads_norm,
                        .extends = extends_norm_tiles,
                        .complete = complete_norm_tiles,
                        .launch = launch_norm_tiles};

}  // namespace fp4sim::gpu
