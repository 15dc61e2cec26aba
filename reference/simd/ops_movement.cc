// Ops that move bits: embedding, permute, repeat_kv and concat; and repeat_kv_grad, its sum over copies.
#include <cstring>
#include <string>
#include <vector>

#include "reference/contract/error.h"
#include "reference/simd/kernels_elementwise.h"
#include "reference/simd/ops_support.h"

namespace fp4sim::simd::ops {
namespace {

void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

Shape parse_integers(const std::string& text) {
  Shape list(1, 0);
  for (const char c : text) {
    if (c == ',')
      list.push_back(0);
    else
      list.back() = list.back() * 10 + (c - '0');
  }
  return list;
}

/// An axis of the result: its length and the distance in elements between neighbours in the source.
struct Walk {
  int64_t length, stride;
};

/// Axes of the result, outermost first; neighbours that lie contiguously in the source are merged.
std::vector<Walk> walks_of(const Shape& view, const Shape& perm) {
  Shape strides(view.size(), 1);
  for (size_t a = view.size(); a-- > 1;) strides[a - 1] = strides[a] * view[a];
  std::vector<Walk> walks;
  for (const int64_t p : perm) {
    const Walk next{view[static_cast<size_t>(p)], strides[static_cast<size_t>(p)]};
    if (next.length == 1) continue;
    if (!walks.empty() && walks.back().stride == next.length * next.stride)
      walks.back() = {walks.back().length * next.length, next.stride};
    else
      walks.push_back(next);
  }
  return walks;
}

template <class T>
void copy_run(const T* from, T* to, Walk run) {
  if (run.stride == 1) return copy(to, from, run.length * static_cast<int64_t>(sizeof(T)));
  for (int64_t i = 0; i < run.length; ++i) to[i] = from[i * run.stride];
}

template <class T>
void permute_elements(const NodeCall& call, const Context& context, const std::vector<Walk>& outer, Walk run) {
  const T* x = in_data<T>(call.in[0]);
  T* y = out_data<T>(call.out[0]);
  int64_t runs = 1;
  for (const Walk& walk : outer) runs *= walk.length;
  parallel_for(context, runs, row_grain(run.length), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, from = 0;
      for (size_t a = outer.size(); a-- > 0; rest /= outer[a].length) from += rest % outer[a].length * outer[a].stride;
      copy_run(x + from, y + r * run.length, run);
    }
  });
}

}  // namespace

void check_indices(const char* op, const char* what, const int32_t* ids, int64_t n, int64_t limit) {
  for (int64_t t = 0; t < n; ++t) {
    if (ids[t] < 0 || ids[t] >= limit)
      throw Error(std::string(op) + ": " + what + " " + std::to_string(ids[t]) + " at position " + std::to_string(t) +
                  " is outside [0, " + std::to_string(limit) + ")");
  }
}

void embedding(const NodeCall& call, const Context& context) {
  const auto* ids = in_data<int32_t>(call.in[0]);
  const float* table = f32_in(call, 1);
  float* y = f32_out(call);
  const int64_t positions = count_in(call, 0), width = call.in[1].type.shape[1];
  check_indices("embedding", "id", ids, positions, call.in[1].type.shape[0]);
  parallel_for(context, positions, row_grain(width), [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      copy(y + t * width, table + ids[t] * width, width * static_cast<int64_t>(sizeof(float)));
  });
}

void permute(const NodeCall& call, const Context& context) {
  if (count_in(call, 0) == 0) return;
  std::vector<Walk> outer =
      walks_of(parse_integers(call.node.attrs.text("view")), parse_integers(call.node.attrs.text("perm")));
  Walk run{1, 1};
  if (!outer.empty()) {
    run = outer.back();
    outer.pop_back();
  }
  if (call.in[0].type.dtype == DType::bf16) return permute_elements<uint16_t>(call, context, outer, run);
  permute_elements<uint32_t>(call, context, outer, run);
}

void repeat_kv(const NodeCall& call, const Context& context) {
  const Shape& shape = call.in[0].type.shape;  // (batch·groups, S, D)
  const int64_t repeats = call.node.attrs.integer("repeats"), head = shape[1] * shape[2];
  const float* x = f32_in(call, 0);
  float* y = f32_out(call);
  parallel_for(context, shape[0] * repeats, row_grain(head), [=](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h)
      copy(y + h * head, x + h / repeats * head, head * static_cast<int64_t>(sizeof(float)));
  });
}

void repeat_kv_grad(const NodeCall& call, const Context& context) {
  const auto add_kernel = pick_elementwise_kernels(context.level).add;
  const Shape& shape = call.out[0].type.shape;  // (batch·groups, S, D)
  const int64_t repeats = call.node.attrs.integer("repeats"), head = shape[1] * shape[2];
  const float* dy = f32_in(call, 0);
  float* dx = f32_out(call);
  parallel_for(context, shape[0], row_grain(head), [=](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const float* first = dy + g * repeats * head;
      float* sum = dx + g * head;
      copy(sum, first, head * static_cast<int64_t>(sizeof(float)));
      for (int64_t r = 1; r < repeats; ++r) add_kernel(sum, first + r * head, sum, head);
    }
  });
}

void concat(const NodeCall& call, const Context& context) {
  float* y = f32_out(call);
  for (size_t i = 0; i < call.in.size(); ++i) {
    const float* x = f32_in(call, i);
    const int64_t n = count_in(call, i);
    parallel_for(context, n, 4 * kGrain, [=](int64_t begin, int64_t end) {
      copy(y + begin, x + begin, (end - begin) * static_cast<int64_t>(sizeof(float)));
    });
    y += n;
  }
}

}  // namespace fp4sim::simd::ops
