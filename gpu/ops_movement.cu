// Ops that move bits: permute, repeat_kv, concat, embedding; and repeat_kv's gradient.
#include "gpu/bits.cuh"
#include "gpu/map.cuh"
#include "gpu/ops.h"
#include "gpu/permutation.h"
#include "reference/contract/error.h"

namespace fp4sim::gpu::ops {
namespace {

constexpr int kMaxAxes = 8;

/// The result's axes, outermost first: size, and the distance of neighbours in the source in elements.
struct Axes {
  int count = 0;
  int64_t size[kMaxAxes];
  int64_t stride[kMaxAxes];
};

/// The axes of a permutation, without those of size 1 and with neighbours that move together made one.
Axes permuted_axes(const Permutation& permutation) {
  const auto& [view, perm] = permutation;
  Shape strides(view.size(), 1);
  for (size_t i = view.size(); i-- > 1;) strides[i - 1] = strides[i] * view[i];
  Axes axes;
  for (const int64_t p : perm) {
    const int64_t size = view[static_cast<size_t>(p)], stride = strides[static_cast<size_t>(p)];
    if (size == 1) continue;
    if (axes.count > 0 && axes.stride[axes.count - 1] == stride * size) {
      axes.size[axes.count - 1] *= size;
      axes.stride[axes.count - 1] = stride;
      continue;
    }
    if (axes.count == kMaxAxes) throw Error("permute: the cuda backend moves at most 8 axes");
    axes.size[axes.count] = size;
    axes.stride[axes.count++] = stride;
  }
  return axes;
}

/// The axes in the integers that a kernel counts in.
template <class Int>
struct KernelAxes {
  int count;
  Int size[kMaxAxes], stride[kMaxAxes];
};
template <class Int>
KernelAxes<Int> kernel_axes(const Axes& axes) {
  KernelAxes<Int> k{};
  k.count = axes.count;
  for (int i = 0; i < axes.count; ++i)
    k.size[i] = static_cast<Int>(axes.size[i]), k.stride[i] = static_cast<Int>(axes.stride[i]);
  return k;
}

constexpr int kMoves = 4;  // units of one thread

/// y[i] = x[from], `from` the place of i in the source.
template <class T, class Int>
__global__ void permute_kernel(const T* x, T* y, Int n, KernelAxes<Int> axes) {
  T bits[kMoves];
  const Int first =
      static_cast<Int>(blockIdx.x) * static_cast<Int>(blockDim.x * kMoves) + static_cast<Int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < kMoves; ++k) {
    const Int i = first + static_cast<Int>(k * blockDim.x);
    Int rest = i, from = 0;  // in mixed radix, the last axis first
    for (int axis = axes.count - 1; axis >= 0; --axis) {
      const Int outer = rest / axes.size[axis];
      from += (rest - outer * axes.size[axis]) * axes.stride[axis];
      rest = outer;
    }
    if (i < n) bits[k] = x[from];
  }
#pragma unroll
  for (int k = 0; k < kMoves; ++k) {
    const Int i = first + static_cast<Int>(k * blockDim.x);
    if (i < n) y[i] = bits[k];
  }
}

template <class T>
void move_units(Context& context, const void* x, void* y, const Axes& axes, int64_t bytes) {
  const int64_t n = bytes / static_cast<int64_t>(sizeof(T));
  const Grid grid = context.per_item(ceil_div(n, kMoves));
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  if (n < int64_t{1} << 31)
    context.launch(permute_kernel<T, uint32_t>, grid, from, to, static_cast<uint32_t>(n), kernel_axes<uint32_t>(axes));
  else
    context.launch(permute_kernel<T, int64_t>, grid, from, to, n, kernel_axes<int64_t>(axes));
}

/// Elements that lie side by side in source and result, in units of `bytes`: the innermost axis when its stride is 1.
bool moves_in_units(const Axes& axes, int64_t elements) {
  return axes.count > 0 && axes.stride[axes.count - 1] == 1 && axes.size[axes.count - 1] % elements == 0;
}

Axes in_units(Axes axes, int64_t elements) {
  const int last = axes.count - 1;
  for (int i = 0; i < last; ++i) axes.stride[i] /= elements;
  axes.size[last] /= elements;
  return axes;
}

/// y[r, i] = x[source(r), i] for rows of `width` words.
template <class T>
__global__ void repeat_rows_kernel(const T* x, T* y, int64_t n, int64_t width, int64_t repeats) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t row = quotient(i, width);
  y[i] = x[quotient(row, repeats) * width + (i - row * width)];
}

template <class T>
void repeat_rows(const NodeCall& call, Context& context, int64_t rows, int64_t bytes, int64_t repeats) {
  const int64_t width = bytes / static_cast<int64_t>(sizeof(T)), n = rows * width;
  context.launch(repeat_rows_kernel<T>, context.per_item(n), in_data<T>(call, 0), out_data<T>(call), n, width, repeats);
}

__global__ void repeat_kv_grad_kernel(const float* dy, float* dx, int64_t n, int64_t head, int64_t repeats) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t group = quotient(i, head);
  const float* first = dy + group * repeats * head + (i - group * head);
  float acc = first[0];
  for (int64_t r = 1; r < repeats; ++r) acc = acc + first[r * head];
  dx[i] = acc;
}

__device__ inline void set_nan(uint32_t& word) { word = kF32CanonicalNaN; }
__device__ inline void set_nan(uint4& words) {
  words = make_uint4(kF32CanonicalNaN, kF32CanonicalNaN, kF32CanonicalNaN, kF32CanonicalNaN);
}

/// One row of `width` words a position. The loader has validated the ids; another one gives NaN.
template <class T>
__global__ void embedding_kernel(const int32_t* ids, const T* table, T* y, int64_t n, int64_t width, int64_t rows) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t position = quotient(i, width);
  const int64_t id = ids[position];
  if (id >= 0 && id < rows) {
    y[i] = table[id * width + (i - position * width)];
  } else {
    set_nan(y[i]);
  }
}

template <class T>
void embed(const NodeCall& call, Context& context) {
  const Shape& table = call.in[1].type.shape;  // (V, C)
  const int64_t width = table[1] * 4 / static_cast<int64_t>(sizeof(T)), n = count_in(call, 0) * width;
  context.launch(embedding_kernel<T>, context.per_item(n), in_data<int32_t>(call, 0), in_data<T>(call, 1),
                 out_data<T>(call), n, width, table[0]);
}

}  // namespace

void permute(const NodeCall& call, Context& context) {
  const Axes axes = permuted_axes(permutation_of(call.node));
  const int64_t width = call.in[0].type.dtype == DType::bf16 ? 2 : 4, bytes = count_in(call, 0) * width;
  const auto* x = in_data<std::byte>(call, 0);
  auto* y = out_data<std::byte>(call);
  if (moves_in_units(axes, 16 / width)) return move_units<uint4>(context, x, y, in_units(axes, 16 / width), bytes);
  if (width == 2) return move_units<uint16_t>(context, x, y, axes, bytes);
  move_units<uint32_t>(context, x, y, axes, bytes);
}

void repeat_kv(const NodeCall& call, Context& context) {
  const Shape& shape = call.in[0].type.shape;  // (batch·groups, S, D)
  const int64_t repeats = call.node.attrs.integer("repeats"), bytes = 4 * shape[1] * shape[2];
  if (bytes % 16 == 0) return repeat_rows<uint4>(call, context, shape[0] * repeats, bytes, repeats);
  repeat_rows<uint32_t>(call, context, shape[0] * repeats, bytes, repeats);
}

void repeat_kv_grad(const NodeCall& call, Context& context) {
  const Shape& shape = call.out[0].type.shape;  // (batch·groups, S, D)
  const int64_t n = count_out(call);
  context.launch(repeat_kv_grad_kernel, context.per_item(n), in_data<float>(call, 0), out_data<float>(call), n,
                 shape[1] * shape[2], call.node.attrs.integer("repeats"));
}

void concat(const NodeCall& call, Context& context) {
  std::byte* y = out_data<std::byte>(call);
  for (size_t i = 0; i < call.in.size(); ++i) {
    const int64_t bytes = call.in[i].parts[0].bytes;
    context.copy(y, in_data<std::byte>(call, i), bytes);
    y += bytes;
  }
}

void embedding(const NodeCall& call, Context& context) {
  if (call.in[1].type.shape[1] % 4 == 0) return embed<uint4>(call, context);
  embed<uint32_t>(call, context);
}

}  // namespace fp4sim::gpu::ops
