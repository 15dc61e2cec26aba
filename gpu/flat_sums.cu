#include "gpu/flat_sums.h"

#include "gpu/row_sum.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kBatch = 128;  // rows per launch: their description travels as a kernel argument

/// Rows of a batch; chunks[t] is the first chunk of row t among all of the batch, chunks[count] their number.
struct Batch {
  int count = 0;
  const float* x[kBatch];
  int64_t n[kBatch];
  int64_t chunks[kBatch + 1];
};

/// The row of a chunk of the batch: the last one whose chunks begin there or before.
__device__ int row_of(const Batch& batch, int64_t chunk) {
  int row = 0;
#pragma unroll
  for (int step = kBatch / 2; step > 0; step /= 2)
    if (row + step < batch.count && batch.chunks[row + step] <= chunk) row += step;
  return row;
}

/// The sum of x[0, n), n ≤ kRowChunk, as sum_of_chunk: 32 elements of each lane are on their way at once.
template <Term term>
__device__ float sum_of_loaded(const float* x, int n) {
  constexpr int kAhead = 32;
  float acc = 0.0f;
  for (int first = 0; first < n; first += kAhead * kWarp) {
    const int i = first + lane_index();
    float v[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) v[k] = i + k * kWarp < n ? x[i + k * kWarp] : 0.0f;
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if constexpr (term == Term::square)
        acc = fma32(v[k], v[k], acc);  // sums of squares are not −0: +0 more is the same
      else if (i + k * kWarp < n)
        acc = acc + v[k];
    }
  }
  return sum_of_lanes(acc);
}

/// partial[c] = the sum of chunk c of the batch; one warp per chunk. Two blocks a multiprocessor leave a thread the
/// registers for its loads.
__global__ void __launch_bounds__(512, 2) chunk_sums_kernel(Batch batch, Term term, float* partial) {
  const int64_t chunk = warp_index();
  if (chunk >= batch.chunks[batch.count]) return;
  const int t = row_of(batch, chunk);
  const int64_t first = (chunk - batch.chunks[t]) * kRowChunk;
  const float* x = batch.x[t] + first;
  const int n = static_cast<int>(least(batch.n[t] - first, kRowChunk));
  const float sum = term == Term::square ? sum_of_loaded<Term::square>(x, n) : sum_of_loaded<Term::element>(x, n);
  if (lane_index() == 0) partial[chunk] = sum;
}

/// sums[t] = the row sum of row t's chunk results; one warp per row. A single result passes through unchanged.
__global__ void row_sums_kernel(Batch batch, const float* partial, float* sums) {
  const int64_t t = warp_index();
  if (t >= batch.count) return;
  const float* x = partial + batch.chunks[t];
  const float sum = sum_of_row(batch.chunks[t + 1] - batch.chunks[t], [x](float acc, int64_t i) { return acc + x[i]; });
  if (lane_index() == 0) sums[t] = sum;
}

}  // namespace

void flat_sums(Context& context, const std::vector<FlatRow>& rows, Term term, float* sums) {
  for (size_t first = 0; first < rows.size(); first += kBatch) {
    Batch batch;
    batch.chunks[0] = 0;
    for (size_t t = first; t < std::min(rows.size(), first + kBatch); ++t) {
      batch.x[batch.count] = rows[t].x;
      batch.n[batch.count] = rows[t].n;
      batch.chunks[batch.count + 1] = batch.chunks[batch.count] + ceil_div(rows[t].n, kRowChunk);
      ++batch.count;
    }
    const int64_t chunks = batch.chunks[batch.count];
    float* partial = context.scratch<float>(chunks);
    context.launch(chunk_sums_kernel, context.per_warp(chunks), batch, term, partial);
    context.launch(row_sums_kernel, context.per_warp(batch.count), batch, partial, sums + first);
  }
}

}  // namespace fp4sim::gpu
