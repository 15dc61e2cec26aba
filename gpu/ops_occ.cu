// OCC (numerics.md §6): clamping between two quantiles, the residual as csr, its sum and its product.
// Entries of a csr are in ascending position: counts, a scan over the vectors, then an ordered compaction.
#include <type_traits>

#include "gpu/arithmetic.cuh"
#include "gpu/csr_view.cuh"
#include "gpu/hopper.cuh"
#include "gpu/occ_bounds.h"
#include "gpu/occ_short.h"
#include "gpu/ops.h"
#include "gpu/transpose.h"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kScanThreads = 1024, kScanItems = 16;

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
    const float value = y[i], clamped = clamp_to(value, b);
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

/// One block of threads: counts in row_ptr[1 … vectors] become sums over all vectors up to theirs. A warp takes kWarp
/// neighbours kScanItems times a round, all loads at once: the time is that of one trip to memory.
__global__ void __launch_bounds__(kScanThreads, 1) scan_counts(int64_t vectors, int64_t* row_ptr) {
  __shared__ int64_t sums[kWarp];  // of each warp
  static_assert(kScanThreads == kWarp * kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  int64_t before = 0;  // entries of the vectors of earlier rounds
  for (int64_t round = 0; round < vectors; round += kScanThreads * kScanItems) {
    const int64_t first = round + warp * (kWarp * kScanItems) + lane;
    const int left = static_cast<int>(least(vectors - first, kWarp * kScanItems));
    int64_t* counts = row_ptr + 1 + first;
    int64_t through[kScanItems];
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) through[k] = k * kWarp < left ? counts[k * kWarp] : 0;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2)
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        const int64_t below = __shfl_up_sync(kAllLanes, through[k], distance);
        if (lane >= distance) through[k] += below;
      }
    int64_t sum = 0;
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      const int64_t neighbours = __shfl_sync(kAllLanes, through[k], kWarp - 1);
      through[k] += sum;
      sum += neighbours;
    }
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    int64_t warps_through = sums[lane];
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int64_t below = __shfl_up_sync(kAllLanes, warps_through, distance);
      if (lane >= distance) warps_through += below;
    }
    const int64_t below = before + __shfl_sync(kAllLanes, warps_through, warp) - sum;
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      if (k * kWarp < left) counts[k * kWarp] = below + through[k];
    before += __shfl_sync(kAllLanes, warps_through, kWarp - 1);
    __syncthreads();
  }
}

/// Writes the entries of one vector a block of threads.
__global__ void write_entries(const float* y, const float* yc, CsrView csr, WideResiduals wide) {
  __shared__ int sums[kThreads / kWarp];
  const int64_t v = blockIdx.x;
  int64_t next = csr.row_ptr[v];
  uint32_t largest = 0;
  for (int64_t first = 0; first < csr.vectors.length; first += blockDim.x) {
    const int64_t k = first + threadIdx.x;
    const bool inside = k < csr.vectors.length;
    const int64_t i = csr.vectors.at(v, inside ? k : 0);
    const float value = y[i], clamped = yc[i];
    const bool entry = inside && (value < clamped || value > clamped);
    int below = 0;
    const int total = count_flags(entry, sums, below);
    if (entry) {
      store_entry(csr, next + below, static_cast<int32_t>(k), value - clamped, wide);
      largest = max(largest, magnitude_bits(value - clamped));
    }
    next += total;
    __syncthreads();
  }
  raise_amax(wide, largest);
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

/// y = x with the residuals added, a warp a vector.
__global__ void add_entries(const float* x, CsrView csr, float* y) {
  const int64_t v = thread_number() / kWarp;
  if (v >= csr.vectors.count) return;
  for (int64_t entry = csr.row_ptr[v] + threadIdx.x % kWarp; entry < csr.row_ptr[v + 1]; entry += kWarp) {
    const int64_t i = csr.vectors.at(v, csr.col[entry]);
    y[i] = x[i] + csr.residual(entry);
  }
}

/// The same for vectors that lie one after the other in quads, which are copied on the way.
__global__ void copy_and_add_entries(const float* x, CsrView csr, float* y) {
  const int64_t v = thread_number() / kWarp, length = csr.vectors.length;
  if (v >= csr.vectors.count) return;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const float* from = x + v * length;
  float* to = y + v * length;
  for (int64_t quad = lane; quad < length / 4; quad += kWarp)
    reinterpret_cast<float4*>(to)[quad] = reinterpret_cast<const float4*>(from)[quad];
  __syncwarp();
  for (int64_t entry = csr.row_ptr[v] + lane; entry < csr.row_ptr[v + 1]; entry += kWarp) {
    const int32_t position = csr.col[entry];
    to[position] = from[position] + csr.residual(entry);
  }
}

constexpr int kSparseBlocks = 8;  // of kThreads that share a multiprocessor

/// y (vectors, rows): one fma chain over a vector's entries for each row of `other` (k, rows), of any k. A block of
/// threads stays with one strip of kWarp rows, and its warps take vectors.
__global__ void __launch_bounds__(kThreads, kSparseBlocks)
    sparse_products(CsrView csr, const float* __restrict__ other, int64_t rows, int64_t strips, float* y) {
  constexpr int kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const int64_t part = quotient(blockIdx.x, strips), parts = quotient(gridDim.x, strips);
  const int64_t row = (blockIdx.x - part * strips) * kWarp + lane;
  const float* from = other + least(row, rows - 1);
  for (int64_t v = part * kWarps + warp; v < csr.vectors.count; v += parts * kWarps) {
    const int64_t last = csr.row_ptr[v + 1];
    float acc = 0.0f;
    for (int64_t first = csr.row_ptr[v]; first < last; first += kWarp) {
      const int count = static_cast<int>(least(last - first, kWarp));
      const float residual = lane < count ? csr.residual(first + lane) : 0.0f;
      const int32_t position = lane < count ? csr.col[first + lane] : 0;
#pragma unroll 4
      for (int e = 0; e < count; ++e) {
        const float value = __shfl_sync(kAllLanes, residual, e);
        acc = fma32(value, from[__shfl_sync(kAllLanes, position, e) * rows], acc);
      }
    }
    if (row < rows) y[v * rows + row] = acc;
  }
}

constexpr int kStripThreads = 1024, kStripWarps = kStripThreads / kWarp;
constexpr int kEntryBytes = 8 * kStripThreads;          // an entry for each lane
constexpr int kStripBytes = (227 << 10) - kEntryBytes;  // the rest of a block's shared memory

/// An entry as all lanes read it: its value and where its factors begin, in bytes from the strip's begin.
struct alignas(8) StripEntry {
  float residual;
  int32_t factors;
};
struct alignas(16) StripEntries {
  StripEntry entry[2];
};

/// The same products with the strip of kWarp·width rows in shared memory, and the entries too: a load gives two of them
/// to all lanes. The entries of a warp's next vector are on their way while it multiplies.
template <int width>
__global__ void __launch_bounds__(kStripThreads, 1)
    strip_products(CsrView csr, const float* __restrict__ other, int64_t rows, int64_t strips, float* y) {
  using Neighbours = std::conditional_t<width == 4, float4, std::conditional_t<width == 2, float2, float>>;
  constexpr int kStep = kWarp * width * static_cast<int>(sizeof(float));  // from a factor's row to the next
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const int64_t part = quotient(blockIdx.x, strips), parts = quotient(gridDim.x, strips);
  const int64_t row = ((blockIdx.x - part * strips) * kWarp + lane) * width, step = parts * kStripWarps;
  auto* entries = reinterpret_cast<StripEntries*>(dynamic_shared()) + warp * (kWarp / 2);
  uint8_t* strip = dynamic_shared() + kEntryBytes + lane * sizeof(Neighbours);
  const float* from = other + least(row, rows - width);
#pragma unroll 8
  for (int k = warp; k < static_cast<int>(csr.vectors.length); k += kStripWarps)
    *reinterpret_cast<Neighbours*>(strip + k * kStep) = *reinterpret_cast<const Neighbours*>(from + k * rows);
  __syncthreads();

  int64_t v = part * kStripWarps + warp;
  CsrSpan span = csr.span(v), next = csr.span(v + step);
  CsrEntry mine = csr.entry(span.first + lane, span.last);
  const float factor = csr.factor();
  for (; v < csr.vectors.count; v += step) {
    const CsrSpan after = csr.span(v + 2 * step);
    alignas(16) float acc[width] = {};
    const auto add = [&](const StripEntry& e) {
      alignas(16) float factors[width];
      *reinterpret_cast<Neighbours*>(factors) = *reinterpret_cast<const Neighbours*>(strip + e.factors);
#pragma unroll
      for (int i = 0; i < width; ++i) acc[i] = fma32(e.residual, factors[i], acc[i]);
    };
    int64_t first = span.first;
    do {
      const int count = static_cast<int>(least(span.last - first, kWarp));
      reinterpret_cast<StripEntry*>(entries)[lane] = {csr.residual_of(mine.code, factor), mine.position * kStep};
      __syncwarp();
      first += kWarp;
      mine = first < span.last ? csr.entry(first + lane, span.last) : csr.entry(next.first + lane, next.last);
#pragma unroll 4
      for (int pair = 0; pair < count / 2; ++pair) {
        const StripEntries two = entries[pair];
        add(two.entry[0]);
        add(two.entry[1]);
      }
      if (count % 2 != 0) add(entries[count / 2].entry[0]);
      __syncwarp();
    } while (first < span.last);
    if (row < rows) *reinterpret_cast<Neighbours*>(y + v * rows + row) = *reinterpret_cast<const Neighbours*>(acc);
    span = next;
    next = after;
  }
}

template <int width>
void launch_strips(const CsrView& csr, const float* other, int64_t rows, float* y, Context& context) {
  const auto kernel = strip_products<width>;
  const int bytes = kEntryBytes + static_cast<int>(csr.vectors.length) * kWarp * width * 4;
  FP4SIM_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kEntryBytes + kStripBytes));
  const int64_t strips = ceil_div(rows, kWarp * width);
  const int64_t parts =
      std::clamp<int64_t>(context.multiprocessors() / strips, 1, ceil_div(csr.vectors.count, kStripWarps));
  context.launch(kernel, Context::per_block(strips * parts, kStripThreads, bytes), csr, other, rows, strips, y);
}

/// y (vectors, rows) = the csr's vectors times `other` (k, rows).
void multiply_sparse(const CsrView& csr, const float* other, int64_t rows, float* y, Context& context) {
  const int64_t vectors = csr.vectors.count;
  if (vectors == 0 || rows == 0) return;
  const auto takes = [&](int width) {
    return rows % width == 0 && csr.vectors.length * kWarp * width * 4 <= kStripBytes;
  };
  if (takes(4)) return launch_strips<4>(csr, other, rows, y, context);
  if (takes(2)) return launch_strips<2>(csr, other, rows, y, context);
  if (takes(1)) return launch_strips<1>(csr, other, rows, y, context);
  const int64_t strips = ceil_div(rows, kWarp), blocks = int64_t{context.multiprocessors()} * kSparseBlocks;
  const int64_t parts = std::clamp<int64_t>(blocks / strips, 1, ceil_div(vectors, kThreads / kWarp));
  context.launch(sparse_products, Context::per_block(strips * parts, kThreads), csr, other, rows, strips, y);
}

/// Writes a csr by write(wide), which knows its entries; then e4m3 residuals get their scale and codes.
template <class Write>
void write_csr(const CsrView& csr, int64_t capacity, Context& context, const Write& write) {
  if (csr.format == ResidualFormat::none) return;
  const bool e4m3 = csr.format == ResidualFormat::e4m3;
  const WideResiduals wide{e4m3 ? context.scratch<float>(capacity) : nullptr,
                           e4m3 ? context.scratch<uint32_t>(1) : nullptr};
  if (e4m3) context.zero(wide.amax, 4);
  write(wide);
  if (e4m3)
    context.launch(encode_residuals, context.per_item(std::max<int64_t>(capacity, 1)), wide.values, wide.amax, capacity,
                   csr);
}

/// Yc and the csr of a tensor whose vectors lie one after the other.
void split(const float* y, float* yc, const Tensor& tensor, Context& context) {
  CsrView csr = csr_view_of(tensor);
  csr.vectors.stride = 1;
  const Vectors& vectors = csr.vectors;
  const OccOption& occ = tensor.type.spec.occ;
  const int64_t elements = vectors.count * vectors.length, capacity = csr_capacity(tensor.type);
  const bool entries = occ.residual != ResidualFormat::none;
  const Grid scan = Context::per_block(1, kScanThreads);
  if (elements == 0) {
    context.zero(csr.row_ptr, 8 * (vectors.count + 1));
    return write_csr(csr, capacity, context, [](const WideResiduals&) {});
  }
  if (!occ.per_tensor && occ_short_takes(vectors.length)) {
    const EntrySlots slots = clamp_short_vectors(y, vectors, occ.alpha, entries, yc, csr.row_ptr, context);
    context.launch(scan_counts, scan, vectors.count, csr.row_ptr);
    return write_csr(csr, capacity, context,
                     [&](const WideResiduals& wide) { gather_entries(slots, csr, wide, context); });
  }
  auto* bounds = context.scratch<Bounds>(occ.per_tensor ? 1 : vectors.count);
  if (occ.per_tensor) {
    tensor_bounds(y, elements, occ.alpha, bounds, context);
  } else {
    vector_bounds(y, vectors, occ.alpha, bounds, context);
  }
  context.launch(clamp_vectors, Context::per_block(vectors.count, kThreads), y, vectors, bounds, occ.per_tensor,
                 entries, yc, csr.row_ptr);
  context.launch(scan_counts, scan, vectors.count, csr.row_ptr);
  write_csr(csr, capacity, context, [&](const WideResiduals& wide) {
    context.launch(write_entries, Context::per_block(vectors.count, kThreads), y, yc, csr, wide);
  });
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
  if (x != y && csr.vectors.stride == 1 && csr.vectors.length % 4 == 0)
    return context.launch(copy_and_add_entries, context.per_warp(csr.vectors.count), x, csr, y);
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
  multiply_sparse(csr, other, rows, products, context);
  if (!csr_is_a) transpose(products, 1, csr.vectors.count, rows, y, context);
}

}  // namespace fp4sim::gpu
