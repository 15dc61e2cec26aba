// embedding_grad: the gradient of a table row is the sum over its positions, in panels of 1024 positions (numerics.md
// §7). First the positions of each panel are sorted by id; then a warp finds its row's positions in a panel and adds
// them in ascending order, and the warps' results are added in the order of the panels.
#include "gpu/ops.h"
#include "gpu/row_sum.cuh"

namespace fp4sim::gpu::ops {
namespace {

// ---- sorting ----

constexpr int kSorters = 128;                                // threads; each finds the place of one position
constexpr int kParts = static_cast<int>(kPanel) / kSorters;  // blocks of a panel
constexpr int32_t kNoId = 0x7FFFFFFE;                        // of places behind the last position: they come last

/// Ids of the panels in ascending order, equal ones by position, and where in its panel each was.
struct Sorted {
  int32_t *ids, *positions;
};

/// kParts blocks for each panel. The place of a position is the number of those that come before it.
__global__ void __launch_bounds__(kSorters) sort_ids_kernel(const int32_t* ids, int64_t count, Sorted sorted) {
  __shared__ __align__(16) int32_t panel[kPanel];
  const int64_t first = blockIdx.x / kParts * kPanel;
#pragma unroll
  for (int i = threadIdx.x; i < static_cast<int>(kPanel); i += kSorters)
    panel[i] = first + i < count ? ids[first + i] : kNoId;
  __syncthreads();
  const int own = static_cast<int>(blockIdx.x % kParts * kSorters + threadIdx.x);
  const int warp_first = own - lane_index();  // the same in all lanes
  const int32_t id = panel[own];
  int place = 0;
  const auto count_before = [&](int from, int to, int32_t limit) {  // by fours
#pragma unroll 4
    for (int i = from; i < to; i += 4) {
      const int4 four = *reinterpret_cast<const int4*>(panel + i);
      place += (four.x < limit) + (four.y < limit) + (four.z < limit) + (four.w < limit);
    }
  };
  count_before(0, warp_first, id + 1);  // equal ids before this warp's come first
#pragma unroll
  for (int i = 0; i < kWarp; ++i) {
    const int32_t other = panel[warp_first + i];
    place += other < id || (other == id && i < lane_index()) ? 1 : 0;
  }
  count_before(warp_first + kWarp, static_cast<int>(kPanel), id);
  sorted.ids[first + place] = id;
  sorted.positions[first + place] = own;
}

// ---- sums ----

constexpr int kSummers = 256, kSumWarps = kSummers / kWarp;
constexpr int kRound = 64;  // panels whose results are added together

/// Places of a panel.
struct Places {
  int first, last;
};

/// Where the id is in a panel's ascending ids: in which of the 32 groups of 32, then at which place there.
__device__ Places find(const int32_t* ids, int32_t id) {
  static_assert(kPanel == kWarp * kWarp);
  const int32_t greatest = ids[lane_index() * kWarp + kWarp - 1];  // of this lane's group
  const int first = __popc(__ballot_sync(kAllLanes, greatest < id)),
            last = __popc(__ballot_sync(kAllLanes, greatest <= id));
  const auto place_in = [&](int group, auto before) {
    if (group == kWarp) return static_cast<int>(kPanel);
    return group * kWarp + __popc(__ballot_sync(kAllLanes, before(ids[group * kWarp + lane_index()])));
  };
  return {place_in(first, [id](int32_t other) { return other < id; }),
          place_in(last, [id](int32_t other) { return other <= id; })};
}

/// acc and `count` ≤ kAhead rows of one column, ascending: those of the places that lanes `from` and up have in
/// `position`. They are on their way at once.
template <int kAhead, bool kAll>
__device__ inline float add_rows(float acc, const float* column, int64_t width, int position, int from, int count) {
  float terms[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int64_t row = __shfl_sync(kAllLanes, position, from + i);
    terms[i] = kAll || i < count ? column[row * width] : -0.0f;  // acc − 0 is acc
  }
#pragma unroll
  for (int i = 0; i < kAhead; ++i) acc = acc + terms[i];
  return acc;
}

/// The sum of one column of the rows at `places` of a panel, ascending. Every lane takes part.
__device__ float sum_places(const float* column, int64_t width, const int32_t* positions, Places places) {
  constexpr int kAhead = kWarp / 2;  // of the last rows
  const auto position_at = [&](int place) { return place < places.last ? positions[place] : 0; };
  float acc = 0.0f;
  int position = position_at(places.first + lane_index());
  for (int first = places.first; first < places.last; first += kWarp) {
    const int next = position_at(first + kWarp + lane_index()), count = places.last - first;
    if (count >= kWarp) {
      acc = add_rows<kWarp, true>(acc, column, width, position, 0, kWarp);
    } else {
      for (int k = 0; k < count; k += kAhead) acc = add_rows<kAhead, false>(acc, column, width, position, k, count - k);
    }
    position = next;
  }
  return acc;
}

/// A block for 32 columns, a lane a column, of a row of the table.
__global__ void __launch_bounds__(kSummers, 4)
    embedding_grad_kernel(Sorted sorted, const float* dy, float* table, int64_t panels, int64_t width) {
  __shared__ float results[kRound][kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = lane_index();
  const int64_t tiles = (width + kWarp - 1) / kWarp, row = quotient(blockIdx.x, tiles);
  const int64_t column = (blockIdx.x - row * tiles) * kWarp + lane;
  dy += column < width ? column : width - 1;  // lanes without a column read another one's
  float sum = 0.0f;
  for (int64_t round = 0; round < panels; round += kRound) {
    const int count = static_cast<int>(least(kRound, panels - round));
    for (int p = warp; p < count; p += kSumWarps) {
      const int64_t first = (round + p) * kPanel;
      const Places places = find(sorted.ids + first, static_cast<int32_t>(row));
      results[p][lane] = sum_places(dy + first * width, width, sorted.positions + first, places);
    }
    __syncthreads();
    if (warp == 0) {  // a panel's sum from +0 is never −0, so that the first one comes unchanged
      for (int p = 0; p < count; ++p) sum = sum + results[p][lane];
    }
    __syncthreads();  // the results are free again
  }
  if (warp == 0 && column < width) table[row * width + column] = sum;
}

}  // namespace

void embedding_grad(const NodeCall& call, Context& context) {
  const Shape& dy = call.in[1].type.shape;  // (T, C)
  const int64_t panels = ceil_div(dy[0], kPanel);
  const Sorted sorted{context.scratch<int32_t>(panels * kPanel), context.scratch<int32_t>(panels * kPanel)};
  context.launch(sort_ids_kernel, Context::per_block(panels * kParts, kSorters), in_data<int32_t>(call, 0), dy[0],
                 sorted);
  context.launch(embedding_grad_kernel,
                 Context::per_block(call.node.attrs.integer("rows") * ceil_div(dy[1], kWarp), kSummers), sorted,
                 in_data<float>(call, 1), out_data<float>(call), panels, dy[1]);
}

}  // namespace fp4sim::gpu::ops
