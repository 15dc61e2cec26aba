#include "gpu/flat_sums.h"

#include "gpu/row_sum.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kBatch = 64;  // rows per launch: their description travels as a kernel argument

/// Rows of a batch; chunks[t] is the first chunk of row t among all of the batch, chunks[count] their number.
struct Batch {
  int count = 0;
  const float* x[kBatch];
  int64_t n[kBatch];
  int64_t chunks[kBatch + 1];
};

/// partial[c] = the sum of chunk c of the batch; one warp per chunk.
__global__ void chunk_sums_kernel(Batch batch, Term term, float* partial) {
  const int64_t chunk = warp_index();
  if (chunk >= batch.chunks[batch.count]) return;
  int t = 0;
  while (chunk >= batch.chunks[t + 1]) ++t;
  const float* x = batch.x[t];
  const int64_t first = (chunk - batch.chunks[t]) * kRowChunk, last = least(batch.n[t], first + kRowChunk);
  const float sum = term == Term::square
                        ? sum_of_chunk(first, last, [x](float acc, int64_t i) { return fma32(x[i], x[i], acc); })
                        : sum_of_chunk(first, last, [x](float acc, int64_t i) { return acc + x[i]; });
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
