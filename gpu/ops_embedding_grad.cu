// embedding_grad: the gradient of a table row is the sum over its positions, in panels of 1024 positions (numerics.md
// §7). One block owns a table row and some of its columns; it scans the ids panel by panel and lists its positions in
// ascending order, so nothing is added by two threads.
#include "gpu/map.cuh"
#include "gpu/ops.h"
#include "gpu/row_sum.cuh"

namespace fp4sim::gpu::ops {
namespace {

constexpr int kBlock = 256;
constexpr int kRounds = static_cast<int>(kPanel) / kBlock;  // ids that a thread looks at per panel

/// Lists the positions of [first, last) whose id is `row`, ascending; returns their number to every thread.
__device__ int list_positions(const int32_t* ids, int64_t first, int64_t last, int64_t row, int* list, int* counts) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kWarps = kBlock / kWarp;
  unsigned ballots[kRounds];
#pragma unroll
  for (int k = 0; k < kRounds; ++k) {
    const int64_t t = first + k * kBlock + static_cast<int64_t>(threadIdx.x);
    ballots[k] = __ballot_sync(kAllLanes, t < last && ids[t] == row);
    if (lane_index() == 0) counts[k * kWarps + warp] = __popc(ballots[k]);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kRounds; ++k) {
    if ((ballots[k] >> lane_index() & 1u) == 0) continue;
    int at = set_below(ballots[k]);
    for (int w = 0; w < k * kWarps + warp; ++w) at += counts[w];
    list[at] = k * kBlock + static_cast<int>(threadIdx.x);
  }
  int total = 0;
  for (int w = 0; w < kRounds * kWarps; ++w) total += counts[w];
  __syncthreads();
  return total;
}

/// Grid: x = table rows, y = column tiles of kBlock.
__global__ void __launch_bounds__(kBlock)
    embedding_grad_kernel(const int32_t* ids, const float* dy, float* table, int64_t positions, int64_t width) {
  constexpr int kAhead = 32;  // terms loaded at once
  __shared__ int list[kPanel];
  __shared__ int counts[kPanel / kWarp];
  const int64_t row = blockIdx.x, column = int64_t{blockIdx.y} * kBlock + threadIdx.x;
  float sum = 0.0f;
  for (int64_t first = 0; first < positions; first += kPanel) {
    const int used = list_positions(ids, first, least(positions, first + kPanel), row, list, counts);
    if (used != 0 && column < width) {  // an empty panel adds +0 to a sum that is never −0
      float acc = 0.0f;
      int k = 0;
      for (; k + kAhead <= used; k += kAhead) {  // a frequent id waits for these loads only
        float terms[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) terms[i] = dy[(first + list[k + i]) * width + column];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) acc = acc + terms[i];
      }
#pragma unroll 8
      for (; k < used; ++k) acc = acc + dy[(first + list[k]) * width + column];
      sum = sum + acc;
    }
    __syncthreads();  // the list is free again
  }
  if (column < width) table[row * width + column] = sum;
}

}  // namespace

void embedding_grad(const NodeCall& call, Context& context) {
  const Shape& dy = call.in[1].type.shape;  // (T, C)
  Grid grid = Context::per_block(call.node.attrs.integer("rows"), kBlock);
  grid.blocks.y = static_cast<unsigned>(ceil_div(dy[1], kBlock));
  context.launch(embedding_grad_kernel, grid, in_data<int32_t>(call, 0), in_data<float>(call, 1), out_data<float>(call),
                 dy[0], dy[1]);
}

}  // namespace fp4sim::gpu::ops
