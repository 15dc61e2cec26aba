// Ops that move bits: permute, repeat_kv, concat, embedding; and repeat_kv's gradient.
#include <cstdlib>

#include "gpu/bits.cuh"
#include "gpu/fusions.h"
#include "gpu/map.cuh"
#include "gpu/ops.h"
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

Shape parse_integers(const std::string& text) {
  Shape list;
  for (const char* at = text.c_str(); *at != 0;) {
    char* end = nullptr;
    list.push_back(std::strtoll(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
  }
  return list;
}

/// The axes of a permutation of `view`, without those of size 1 and with neighbours that move together made one.
Axes permuted_axes(const Shape& view, const Shape& perm) {
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

Axes axes_of(const NodeCall& call) {
  return permuted_axes(parse_integers(call.node.attrs.text("view")), parse_integers(call.node.attrs.text("perm")));
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

/// Bits as they are.
struct Moved {
  template <class T>
  __device__ T operator()(T bits, int64_t) const {
    return bits;
  }
};

/// x[from] + b[from mod period] in units of one or four floats; period counts units.
struct MovedSum {
  const float* b;
  int64_t period;
  __device__ uint32_t operator()(uint32_t bits, int64_t from) const {
    return bits_of(float_of(bits) + b[from - quotient(from, period) * period]);
  }
  __device__ uint4 operator()(uint4 bits, int64_t from) const {
    const float4 f = reinterpret_cast<const float4*>(b)[from - quotient(from, period) * period];
    return make_uint4(bits_of(float_of(bits.x) + f.x), bits_of(float_of(bits.y) + f.y), bits_of(float_of(bits.z) + f.z),
                      bits_of(float_of(bits.w) + f.w));
  }
};

constexpr int kMoves = 4;  // units of one thread

/// y[i] = change(x[from], from), `from` the place of i in the source.
template <class T, class Int, class Change>
__global__ void permute_kernel(const T* x, T* y, Int n, KernelAxes<Int> axes, Change change) {
  Int from[kMoves];
  T bits[kMoves];
  const Int first =
      static_cast<Int>(blockIdx.x) * static_cast<Int>(blockDim.x * kMoves) + static_cast<Int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < kMoves; ++k) {
    const Int i = first + static_cast<Int>(k * blockDim.x);
    Int rest = i;  // in mixed radix, the last axis first
    from[k] = 0;
    for (int axis = axes.count - 1; axis >= 0; --axis) {
      const Int outer = rest / axes.size[axis];
      from[k] += (rest - outer * axes.size[axis]) * axes.stride[axis];
      rest = outer;
    }
    if (i < n) bits[k] = x[from[k]];
  }
#pragma unroll
  for (int k = 0; k < kMoves; ++k) {
    const Int i = first + static_cast<Int>(k * blockDim.x);
    if (i < n) y[i] = change(bits[k], static_cast<int64_t>(from[k]));
  }
}

template <class T, class Change>
void move_units(Context& context, const void* x, void* y, const Axes& axes, int64_t bytes, Change change) {
  const int64_t n = bytes / static_cast<int64_t>(sizeof(T));
  const Grid grid = context.per_item(ceil_div(n, kMoves));
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  if (n < int64_t{1} << 31)
    context.launch(permute_kernel<T, uint32_t, Change>, grid, from, to, static_cast<uint32_t>(n),
                   kernel_axes<uint32_t>(axes), change);
  else
    context.launch(permute_kernel<T, int64_t, Change>, grid, from, to, n, kernel_axes<int64_t>(axes), change);
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

// ---- a sum that moves ----

bool starts_sum(const NodeCall& first) {
  return first.node.op == Op::add && first.in[0].type.dtype == DType::f32 && count_in(first, 0) > 0;
}
bool extends_sum(const Chain& chain, const NodeCall& next) {
  return chain.nodes.size() == 1 && next.node.op == Op::permute;
}
/// A sum that others read too is stored by its own op.
bool complete_move(const Chain& chain) { return chain.nodes.size() == 2 && !chain.stored[0]; }

void launch_move(std::span<const Chain> chains, Context& context) {
  const NodeCall sum = chains[0].nodes[0].call(), move = chains[0].nodes[1].call();
  const Axes axes = axes_of(move);
  const int64_t bytes = 4 * count_in(sum, 0), period = count_in(sum, 1);
  const auto* x = in_data<std::byte>(sum, 0);
  auto* y = out_data<std::byte>(move);
  const float* b = in_data<float>(sum, 1);
  if (moves_in_units(axes, 4) && period % 4 == 0)
    return move_units<uint4>(context, x, y, in_units(axes, 4), bytes, MovedSum{b, period / 4});
  move_units<uint32_t>(context, x, y, axes, bytes, MovedSum{b, period});
}

}  // namespace

void permute(const NodeCall& call, Context& context) {
  const Axes axes = axes_of(call);
  const int64_t width = call.in[0].type.dtype == DType::bf16 ? 2 : 4, bytes = count_in(call, 0) * width;
  const auto* x = in_data<std::byte>(call, 0);
  auto* y = out_data<std::byte>(call);
  if (moves_in_units(axes, 16 / width))
    return move_units<uint4>(context, x, y, in_units(axes, 16 / width), bytes, Moved{});
  if (width == 2) return move_units<uint16_t>(context, x, y, axes, bytes, Moved{});
  move_units<uint32_t>(context, x, y, axes, bytes, Moved{});
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

namespace fp4sim::gpu {

const Fusion kBiasAndPermute{.name = "sum and permute",
                             .in_place = false,
                             .starts = ops::starts_sum,
                             .extends = ops::extends_sum,
                             .complete = ops::complete_move,
                             .launch = ops::launch_move};

}  // namespace fp4sim::gpu
