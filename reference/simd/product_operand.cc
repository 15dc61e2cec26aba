#include "reference/simd/product_operand.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/contract/host_backend.h"
#include "reference/simd/code_values.h"
#include "reference/simd/kernels_product.h"

namespace fp4sim::simd {
namespace {

// Elements that pay for waking a worker; nibbles become bytes 32 at a time.
constexpr int64_t kGrainElements = 1 << 14;
constexpr int64_t kGrainNibbles = 1 << 18;
constexpr int64_t kScalePadding = 64;  // at least the widest tile

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
int64_t line_grain(int64_t length, int64_t elements = kGrainElements) {
  return std::max<int64_t>(1, elements / std::max<int64_t>(length, 1));
}

float f32_of_bf16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float y;
  std::memcpy(&y, &bits, sizeof y);
  return y;
}

/// Values of one row of codes; a table for formats of at most 8 bits.
class RowDecoder {
 public:
  RowDecoder(const ElementFormat& format, bool infinities) : format_(format), infinities_(infinities) {
    if (format.bits > 8) return;
    for (uint32_t code = 0; code < (1u << format.bits); ++code) table_[code] = value(code);
    if (format.bits != 4) return;
    for (uint32_t byte = 0; byte < 256; ++byte)
      pairs_[byte][0] = table_[byte & 15], pairs_[byte][1] = table_[byte >> 4];
  }

  void decode(const uint8_t* row, int64_t n, float* to) const {
    if (format_.bits == 32) {
      std::memcpy(to, row, static_cast<size_t>(4 * n));
    } else if (format_.bits > 8) {
      for (int64_t j = 0; j < n; ++j) to[j] = value(code_at(row, format_.bits, j));
    } else if (format_.bits == 4) {
      for (int64_t j = 0; j + 2 <= n; j += 2) std::memcpy(to + j, pairs_[row[j / 2]], 8);
      if (n % 2 != 0) to[n - 1] = pairs_[row[n / 2]][0];
    } else {
      look_up(row, format_.bits, n, table_, to);
    }
  }

 private:
  float value(uint32_t code) const {
    if (format_ == kBf16) return f32_of_bf16(static_cast<uint16_t>(code));
    const auto v = static_cast<float>(code_value(format_, code));
    return std::isinf(v) && !infinities_ ? std::numeric_limits<float>::quiet_NaN() : v;
  }

  ElementFormat format_;
  bool infinities_;
  float table_[256] = {};
  float pairs_[256][2] = {};
};

/// Index of the scale of (matrix, row, col) of the stored layout (§4.4).
struct ScaleIndex {
  ScaleGrid grid;
  bool one;  // one scale for the whole tensor
  explicit ScaleIndex(const ValueType& type)
      : grid(scale_grid(type)), one(type.spec.granularity == Granularity::tensor) {}
  int64_t at(int64_t matrix, int64_t row, int64_t col) const {
    if (one) return 0;
    return (matrix * grid.rows + row / grid.row_step) * grid.cols + col / grid.col_step;
  }
};

/// Reads stored scales one at a time and remembers the extremes of the finite nonzero ones.
class ScaleReader {
 public:
  ScaleReader(const Tensor& t, bool bytes) : bytes_(bytes ? in_data<uint8_t>(t, 1) : nullptr) {
    if (bytes)
      scale_byte_values(t.type.spec, values_);
    else
      floats_ = in_data<float>(t, 1);
  }
  float operator()(int64_t i) {
    if (bytes_ == nullptr) {
      note(floats_[i]);
      return floats_[i];
    }
    seen_[bytes_[i]] = true;
    return values_[bytes_[i]];
  }
  void summary(ScaleMatrices* s) {
    for (int code = 0; code < 256; ++code) {
      if (!seen_[code]) continue;
      note(values_[code]);
      s->distinct.push_back(values_[code]);
    }
    s->smallest = largest_ > 0 ? smallest_ : 0, s->largest = largest_;
  }

 private:
  void note(float x) {
    const float magnitude = std::fabs(x);
    if (magnitude == 0 || !(magnitude <= std::numeric_limits<float>::max())) return;
    smallest_ = std::min(smallest_, magnitude), largest_ = std::max(largest_, magnitude);
  }

  const uint8_t* bytes_;
  const float* floats_ = nullptr;
  float values_[256] = {};
  bool seen_[256] = {};
  float smallest_ = std::numeric_limits<float>::infinity(), largest_ = 0;
};

/// All stored scales as binary32.
const float* stored_scales(const Tensor& t, Arena& arena) {
  if (t.type.spec.scale == ScaleFormat::fp32) return in_data<float>(t, 1);
  float values[256];
  scale_byte_values(t.type.spec, values);
  const int64_t n = scale_grid(t.type).count();
  const uint8_t* bytes = in_data<uint8_t>(t, 1);
  float* scales = arena.take<float>(n);
  for (int64_t i = 0; i < n; ++i) scales[i] = values[bytes[i]];
  return scales;
}

/// row[j] = fl(fl(row[j]·s)·d) for one stored row.
void apply_scales(float* row, const OperandShape& shape, int64_t line, const ScaleIndex& index, const float* scales,
                  const float* d) {
  const int64_t matrix = line / shape.lines(), r = line % shape.lines(), n = shape.line_length();
  const int64_t run = index.one ? n : index.grid.col_step;
  if (run == 1) {
    const float* s = scales + index.at(matrix, r, 0);
    for (int64_t j = 0; j < n; ++j) row[j] *= s[j];
  } else {
    for (int64_t j = 0; j < n; j += run) {
      const float s = scales[index.at(matrix, r, j)];
      for (int64_t i = j; i < std::min(n, j + run); ++i) row[i] *= s;
    }
  }
  if (d != nullptr)
    for (int64_t j = 0; j < n; ++j) row[j] *= *d;
}

}  // namespace

OperandShape operand_shape(const ValueType& type, Axis axis) {
  const MatrixView m = matrix_view(type.shape);
  const bool last = axis == Axis::last;
  return {m.matrices, last ? m.rows : m.cols, last ? m.cols : m.rows, last};
}

const float* tensor_scale(const Tensor& t) {
  if (t.type.dtype != DType::packed || !has_tensor_scale(t.type.spec)) return nullptr;
  return in_data<float>(t, 2);
}

PlainMatrices element_values(const Tensor& t, const OperandShape& shape, bool infinities, const Context& context,
                             Arena& arena) {
  const int64_t lines = shape.matrices * shape.lines(), n = shape.line_length(), bytes = code_row_bytes(t.type);
  float* values = arena.take<float>(lines * n);
  const uint8_t* codes = in_data<uint8_t>(t);
  const RowDecoder decoder(element_of(t), infinities);
  parallel_for(context, lines, line_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) decoder.decode(codes + line * bytes, n, values + line * n);
  });
  return {values, n, shape.lines() * n};
}

PlainMatrices decoded_operand(const Tensor& t, const OperandShape& shape, const Context& context, Arena& arena) {
  const int64_t lines = shape.matrices * shape.lines(), n = shape.line_length();
  const PlainMatrices layout{nullptr, n, shape.lines() * n};
  if (t.type.dtype == DType::f32) return {in_data<float>(t), layout.stride, layout.matrix_stride};
  if (t.type.dtype == DType::bf16) {
    const uint16_t* from = in_data<uint16_t>(t);
    float* values = arena.take<float>(lines * n);
    parallel_for(context, lines * n, kGrainElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] = f32_of_bf16(from[i]);
    });
    return {values, layout.stride, layout.matrix_stride};
  }
  const PlainMatrices plain = element_values(t, shape, true, context, arena);
  if (is_unscaled(t.type.spec)) return plain;
  auto* values = static_cast<float*>(const_cast<void*>(plain.data));
  const float* scales = stored_scales(t, arena);
  const float* d = tensor_scale(t);
  const ScaleIndex index(t.type);
  parallel_for(context, lines, line_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) apply_scales(values + line * n, shape, line, index, scales, d);
  });
  return plain;
}

PlainMatrices element_steps(const Tensor& t, const OperandShape& shape, int offset, const Context& context,
                            Arena& arena) {
  const ElementFormat format = element_of(t);
  const double step = power_of_two(min_step_exponent(format));
  alignas(16) int8_t table[256] = {};
  for (uint32_t code = 0; code < (1u << format.bits); ++code)
    table[code] = static_cast<int8_t>(static_cast<uint8_t>(static_cast<int>(code_value(format, code) / step) + offset));

  const int64_t n = shape.line_length(), stride = round_up(n, 4), bytes = code_row_bytes(t.type);
  const int64_t lines = shape.lines(), padded = shape.k_inner ? lines : round_up(lines, 4);
  int8_t* steps = arena.take<int8_t>(shape.matrices * padded * stride);
  const uint8_t* codes = in_data<uint8_t>(t);
  const ProductFinish& kernels = pick_product_finish(context.level);
  const int64_t grain = line_grain(n, format.bits == 4 ? kGrainNibbles : kGrainElements);
  parallel_for(context, shape.matrices * padded, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int8_t* to = steps + i * stride;
      const int64_t line = i % padded;
      if (line >= lines) {
        std::memset(to, 0, static_cast<size_t>(stride));
        continue;
      }
      const uint8_t* row = codes + (i / padded * lines + line) * bytes;
      if (format.bits == 4)
        kernels.decode_nibbles(row, table, to, n);
      else
        look_up(row, format.bits, n, table, to);
      std::memset(to + n, 0, static_cast<size_t>(stride - n));
    }
  });
  return {steps, stride, padded * stride};
}

ScaleMatrices operand_scales(const Tensor& t, const OperandShape& shape, Arena& arena) {
  const ScaleGrid grid = scale_grid(t.type);
  const bool tensor = t.type.spec.granularity == Granularity::tensor;
  const int64_t block = contraction_block(t.type.spec);
  const int64_t blocks = block == 0 ? 1 : (shape.k + block - 1) / block;
  const int64_t stride = round_up(shape.vectors, kScalePadding);
  ScaleMatrices s{arena.take<float>(shape.matrices * blocks * stride), stride, blocks * stride, 0, 0, {}};
  // Stored index = matrix·per_matrix + (vector / vector_run)·vector_step + block·block_step.
  const int64_t per_matrix = tensor ? 0 : grid.rows * grid.cols;
  const int64_t vector_run = tensor ? stride : t.type.spec.granularity == Granularity::tile2d ? block : 1;
  const int64_t vector_step = shape.k_inner ? grid.cols : 1, block_step = shape.k_inner ? 1 : grid.cols;
  const bool bytes = t.type.spec.scale != ScaleFormat::fp32;
  ScaleReader read(t, bytes);
  for (int64_t m = 0; m < shape.matrices; ++m)
    for (int64_t b = 0; b < blocks; ++b) {
      float* to = s.data + m * s.matrix_stride + b * stride;
      const int64_t first = m * per_matrix + b * block_step;
      for (int64_t v = 0; v < shape.vectors; v += vector_run) {
        const float x = read(first + v / vector_run * vector_step);
        for (int64_t w = v; w < std::min(shape.vectors, v + vector_run); ++w) to[w] = x;
      }
      std::fill(to + shape.vectors, to + stride, 0.0f);
    }
  read.summary(&s);
  return s;
}

}  // namespace fp4sim::simd
