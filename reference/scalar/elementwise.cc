// Ops without a sum over more than a few terms: add, mul, scale, permute, repeat_kv (and its gradient), concat.
#include <cstring>

#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"

namespace fp4sim::scalar::kernels {
namespace {

/// y[i] = f(x[i], b[i mod |b|]) in binary32.
template <class F>
void broadcast(const NodeCall& call, const F& f) {
  const float *x = in_data<float>(call.in[0]), *b = in_data<float>(call.in[1]);
  float* y = out_data<float>(call.out[0]);
  const int64_t n = element_count(call.in[0].type.shape), period = element_count(call.in[1].type.shape);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i], b[i % period]);
}

/// The integers of a list such as "2,8,4,16" (checked by infer_types).
Shape parse_integers(const std::string& text) {
  Shape list;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    list.push_back(std::stoll(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return list;
}

/// Distances in elements between neighbours along each axis of a row-major array.
Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

template <class T>
void permute_elements(const NodeCall& call, const Shape& view, const Shape& perm) {
  const T* x = in_data<T>(call.in[0]);
  T* y = out_data<T>(call.out[0]);
  const Shape strides = strides_of(view);
  const int64_t n = element_count(view);
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, from = 0;  // i in mixed radix, last result axis first
    for (size_t axis = perm.size(); axis-- > 0;) {
      const auto source = static_cast<size_t>(perm[axis]);
      from += rest % view[source] * strides[source];
      rest /= view[source];
    }
    y[i] = x[from];
  }
}

}  // namespace

void add(const NodeCall& call) {
  broadcast(call, [](float x, float b) { return x + b; });
}

void mul(const NodeCall& call) {
  broadcast(call, [](float x, float b) { return x * b; });
}

void scale(const NodeCall& call) {
  const auto factor = static_cast<float>(call.node.attrs.number("factor"));
  const float* x = in_data<float>(call.in[0]);
  float* y = out_data<float>(call.out[0]);
  const int64_t n = element_count(call.in[0].type.shape);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

void permute(const NodeCall& call) {
  const Shape view = parse_integers(call.node.attrs.text("view")), perm = parse_integers(call.node.attrs.text("perm"));
  if (call.in[0].type.dtype == DType::bf16) return permute_elements<uint16_t>(call, view, perm);
  permute_elements<uint32_t>(call, view, perm);  // bits, so that NaN payloads stay
}

void repeat_kv(const NodeCall& call) {
  const Shape& shape = call.in[0].type.shape;  // (batch·groups, S, D)
  const int64_t repeats = call.node.attrs.integer("repeats"), head = shape[1] * shape[2];
  const uint32_t* x = in_data<uint32_t>(call.in[0]);
  uint32_t* y = out_data<uint32_t>(call.out[0]);
  for (int64_t h = 0; h < shape[0] * repeats; ++h) {
    for (int64_t i = 0; i < head; ++i) y[h * head + i] = x[h / repeats * head + i];
  }
}

void repeat_kv_grad(const NodeCall& call) {
  const Shape& shape = call.out[0].type.shape;  // (batch·groups, S, D)
  const int64_t repeats = call.node.attrs.integer("repeats"), head = shape[1] * shape[2];
  const float* dy = in_data<float>(call.in[0]);
  float* dx = out_data<float>(call.out[0]);
  for (int64_t g = 0; g < shape[0]; ++g) {
    for (int64_t i = 0; i < head; ++i) {
      float acc = dy[g * repeats * head + i];
      for (int64_t r = 1; r < repeats; ++r) acc = acc + dy[(g * repeats + r) * head + i];
      dx[g * head + i] = acc;
    }
  }
}

void concat(const NodeCall& call) {
  std::byte* y = host_data(call.out[0].parts[0]);
  for (const Tensor& x : call.in) {
    const int64_t bytes = part_layouts(x.type)[0].bytes;
    if (bytes != 0) std::memcpy(y, host_data(x.parts[0]), static_cast<size_t>(bytes));
    y += bytes;
  }
}

}  // namespace fp4sim::scalar::kernels
