// OCC (numerics.md §6): clamping between two quantiles, the residual as csr, its sum and its product.
// Entries of a csr are in ascending position: counts, a scan over the vectors, then an ordered compaction.
#include "gpu/arithmetic.cuh"
#include "gpu/csr_view.cuh"
#include "gpu/occ_bounds.h"
#include "gpu/ops.h"
#include "gpu/transpose.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kScanThreads = 1024;

/// Y clamped to its group's bounds; compares as written in §6, so that −0 and NaN stay.
__device__ float clamp(float y, const Bounds& b) {
  if (!b.split) return y;
  return y < b.lower ? b.lower : y > b.upper ? b.upper : y;
}

/// The sum over the block of threads of one flag each, and how many are set below this thread. `sums` has one word for
/// each warp; the caller synchronizes between two uses.
__device__ int count_flags(bool flag, int* sums, int& below) {
  const unsigned ballot = __ballot_sync(kAllLanes, flag);
  const int warp = static_cast<int>(threadIdx.x / kWarp), warps = static_cast<int>(blockDim.x / kWarp);
  if (threadIdx.x % kWarp == 0) sums[warp] = __popc(ballot);
  __syncthreads();
  int total = 0;
  below = set_below(ballot);
  for (int w = 0; w < warps; ++w) {
    if (w < warp) below += sums[w];
    total += sums[w];
  }
  return total;
}

/// Writes Yc of one vector a block of threads; row_ptr[v + 1] gets the number of its entries.
__global__ void clamp_vectors(const float* y, Vectors vectors, const Bounds* bounds, bool per_tensor, bool entries,
                              float* yc, int64_t* row_ptr) {
  __shared__ int sums[kThreads / kWarp];
  const int64_t v = blockIdx.x;
  const Bounds b = bounds[per_tensor ? 0 : v];
  int mine = 0;
  for (int64_t k = threadIdx.x; k < vectors.length; k += blockDim.x) {
    const int64_t i = vectors.at(v, k);
    const float value = y[i], clamped = clamp(value, b);
    yc[i] = clamped;
    mine += entries && (value < clamped || value > clamped) ? 1 : 0;
  }
  const int warp_sum = static_cast<int>(__reduce_add_sync(kAllLanes, static_cast<unsigned>(mine)));
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = warp_sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int64_t total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x / kWarp); ++w) total += sums[w];
  row_ptr[v + 1] = total;
  if (v == 0) row_ptr[0] = 0;
}

/// One block of threads: counts in row_ptr[1 … vectors] become sums over all vectors up to theirs.
__global__ void scan_counts(int64_t vectors, int64_t* row_ptr) {
  __shared__ int64_t sums[kScanThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  int64_t before = 0;  // entries of the vectors of earlier rounds
  for (int64_t first = 0; first < vectors; first += kScanThreads) {
    const int64_t v = first + threadIdx.x;
    int64_t through = v < vectors ? row_ptr[v + 1] : 0;
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int64_t below = __shfl_up_sync(kAllLanes, through, distance);
      if (lane >= distance) through += below;
    }
    if (lane == kWarp - 1) sums[warp] = through;
    __syncthreads();
    int64_t total = 0;
    for (int w = 0; w < kScanThreads / kWarp; ++w) {
      if (w < warp) through += sums[w];
      total += sums[w];
    }
    if (v < vectors) row_ptr[v + 1] = before + through;
    before += total;
    __syncthreads();
  }
}

/// Writes the entries of one vector a block of threads: positions, and ΔY as fp32 or bf16; for e4m3 ΔY goes to `wide`
/// and its largest magnitude to `amax`.
__global__ void write_entries(const float* y, const float* yc, CsrView csr, float* wide, uint32_t* amax) {
  __shared__ int sums[kThreads / kWarp];
  const int64_t v = blockIdx.x;
  int64_t next = csr.row_ptr[v];
  for (int64_t first = 0; first < csr.vectors.length; first += blockDim.x) {
    const int64_t k = first + threadIdx.x;
    const bool inside = k < csr.vectors.length;
    const int64_t i = csr.vectors.at(v, inside ? k : 0);
    const float value = y[i], clamped = yc[i];
    const bool entry = inside && (value < clamped || value > clamped);
    int below = 0;
    const int total = count_flags(entry, sums, below);
    if (entry) {
      const int64_t at = next + below;
      const float residual = value - clamped;
      csr.col[at] = static_cast<int32_t>(k);
      if (csr.format == ResidualFormat::bf16) {
        const Codec codec{csr.element, Rounding::rne, true};
        static_cast<uint16_t*>(csr.values)[at] = static_cast<uint16_t>(encode(residual, codec));
      } else if (csr.format == ResidualFormat::fp32) {
        static_cast<float*>(csr.values)[at] = residual;
      } else {
        wide[at] = residual;
        atomicMax(amax, magnitude_bits(residual));
      }
    }
    next += total;
    __syncthreads();
  }
}

/// The exponent of the e4m3 residuals' scale: rceil of the tensor's largest, −127 if there is none (§6).
__device__ int residual_exponent(uint32_t amax, const ElementFormat& e4m3) {
  return amax != 0 && amax < kF32Inf ? e8m0_exponent(amax, e4m3, ScaleRule::rceil) : -127;
}

/// Codes of the e4m3 residuals, zeros under an infinite one. Thread 0 writes the scale.
__global__ void encode_residuals(const float* wide, const uint32_t* amax, int64_t capacity, CsrView csr) {
  const int64_t entry = thread_number();
  const bool finite = *amax < kF32Inf;
  const int s = residual_exponent(*amax, csr.element);
  if (entry == 0) *csr.scale = finite ? static_cast<uint8_t>(s + kE8m0Bias) : kE8m0NaN;
  if (entry >= capacity || entry >= csr.row_ptr[csr.vectors.count]) return;
  const Codec codec{csr.element, Rounding::rne, false};
  const double scaled = static_cast<double>(wide[entry]) * pow2_f64(-s);
  static_cast<uint8_t*>(csr.values)[entry] = finite ? static_cast<uint8_t>(encode(scaled, codec)) : uint8_t{0};
}

__global__ void add_entries(const float* x, CsrView csr, float* y) {
  const int64_t v = thread_number() / kWarp;
  if (v >= csr.vectors.count) return;
  for (int64_t entry = csr.row_ptr[v] + threadIdx.x % kWarp; entry < csr.row_ptr[v + 1]; entry += kWarp) {
    const int64_t i = csr.vectors.at(v, csr.col[entry]);
    y[i] = x[i] + csr.residual(entry);
  }
}

/// y (vectors, rows): one fma chain over a vector's entries for each row of `other` (k, rows). One block of threads
/// takes a vector and kThreads rows and shares the entries.
__global__ void sparse_products(CsrView csr, const float* other, int64_t rows, int64_t row_blocks, float* y) {
  __shared__ float values[kThreads];
  __shared__ int32_t positions[kThreads];
  const int64_t v = quotient(blockIdx.x, row_blocks), row_block = blockIdx.x - v * row_blocks;
  const int64_t row = row_block * kThreads + threadIdx.x;
  const int64_t last = csr.row_ptr[v + 1];
  float acc = 0.0f;
  for (int64_t first = csr.row_ptr[v]; first < last; first += kThreads) {
    const int count = static_cast<int>(least(last - first, kThreads));
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < count) {
      values[threadIdx.x] = csr.residual(first + threadIdx.x);
      positions[threadIdx.x] = csr.col[first + threadIdx.x];
    }
    __syncthreads();
    if (row < rows)
      for (int e = 0; e < count; ++e) acc = fma32(values[e], other[positions[e] * rows + row], acc);
  }
  if (row < rows) y[v * rows + row] = acc;
}

/// Entries of csr from Y and Yc, whose vectors lie one after the other.
void write_csr(const float* y, const float* yc, CsrView csr, int64_t capacity, Context& context) {
  if (csr.format == ResidualFormat::none) return;
  csr.vectors.stride = 1;
  const bool e4m3 = csr.format == ResidualFormat::e4m3;
  auto* wide = e4m3 ? context.scratch<float>(capacity) : nullptr;
  auto* amax = e4m3 ? context.scratch<uint32_t>(1) : nullptr;
  if (e4m3) context.zero(amax, 4);
  context.launch(write_entries, Context::per_block(csr.vectors.count, kThreads), y, yc, csr, wide, amax);
  if (e4m3)
    context.launch(encode_residuals, context.per_item(std::max<int64_t>(capacity, 1)), wide, amax, capacity, csr);
}

/// Yc and the csr of a tensor whose vectors lie one after the other.
void split(const float* y, float* yc, const Tensor& csr, Context& context) {
  CsrView view = csr_view_of(csr);
  const OccOption& occ = csr.type.spec.occ;
  const Vectors vectors{view.vectors.count, view.vectors.length, 1};
  const int64_t elements = vectors.count * vectors.length;
  auto* bounds = context.scratch<Bounds>(occ.per_tensor ? 1 : vectors.count);
  if (elements == 0) {
    context.zero(view.row_ptr, 8 * (vectors.count + 1));
  } else {
    if (occ.per_tensor) {
      tensor_bounds(y, elements, occ.alpha, bounds, context);
    } else {
      vector_bounds(y, vectors, occ.alpha, bounds, context);
    }
    context.launch(clamp_vectors, Context::per_block(vectors.count, kThreads), y, vectors, bounds, occ.per_tensor,
                   occ.residual != ResidualFormat::none, yc, view.row_ptr);
    context.launch(scan_counts, Context::per_block(1, kScanThreads), vectors.count, view.row_ptr);
  }
  write_csr(y, yc, view, csr_capacity(csr.type), context);
}

}  // namespace

void ops::occ_split(const NodeCall& call, Context& context) {
  const float* y = in_data<float>(call, 0);
  float* yc = out_data<float>(call, 0);
  const Tensor& csr = call.out[1];
  if (csr.type.axis == Axis::last) return split(y, yc, csr, context);
  // Vectors across the rows are turned first, so that every pass reads neighbours.
  const MatrixView m = matrix_view(csr.type.shape);
  const int64_t count = count_in(call, 0);
  auto* turned = context.scratch<float>(count);
  auto* turned_yc = context.scratch<float>(count);
  transpose(y, m.matrices, m.rows, m.cols, turned, context);
  split(turned, turned_yc, csr, context);
  transpose(turned_yc, m.matrices, m.cols, m.rows, yc, context);
}

void ops::add_residual(const NodeCall& call, Context& context) {
  const float* x = in_data<float>(call, 0);
  const CsrView csr = csr_view_of(call.in[1]);
  float* y = out_data<float>(call);
  context.copy(y, x, 4 * count_in(call, 0));
  context.launch(add_entries, context.per_warp(csr.vectors.count), x, csr, y);
}

void ops::sparse_matmul(const NodeCall& call, Context& context) {
  const CsrView csr = csr_view_of(call.in[0]);
  const float* other = in_data<float>(call, 1);
  const bool last = parse_axis(call.node.attrs.text("other_axis")) == Axis::last;
  const Shape& shape = call.in[1].type.shape;
  const int64_t rows = last ? shape[0] : shape[1], k = last ? shape[1] : shape[0];
  const bool csr_is_a = call.node.attrs.text("side") == "a";
  if (last) {
    auto* transposed = context.scratch<float>(rows * k);
    transpose(other, 1, rows, k, transposed, context);
    other = transposed;
  }
  float* y = out_data<float>(call);
  float* products = csr_is_a ? y : context.scratch<float>(csr.vectors.count * rows);
  const int64_t row_blocks = ceil_div(rows, kThreads);
  context.launch(sparse_products, Context::per_block(csr.vectors.count * row_blocks, kThreads), csr, other, rows,
                 row_blocks, products);
  if (!csr_is_a) transpose(products, 1, csr.vectors.count, rows, y, context);
}

}  // namespace fp4sim::gpu
