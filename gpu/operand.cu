#include "gpu/operand.h"

#include "gpu/arithmetic.cuh"
#include "gpu/dequantize.h"
#include "gpu/packed_view.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

__global__ void widen_bf16(const uint16_t* in, int64_t count, float* out) {
  const int64_t i = thread_number();
  if (i < count) out[i] = f32_of_bf16(in[i]);
}

/// Elements of eight neighbours of a row without scales.
__global__ void decode_elements(PackedView q, bool nan_only, float* out) {
  const Layout& l = q.layout;
  const int64_t item = thread_number(), row = quotient(item, l.groups), group = item - row * l.groups;
  if (row >= l.rows) return;
  const ElementFormat f = q.element();
  const int64_t first = group * kGroupCodes, last = least(first + kGroupCodes, l.cols);
  for (int64_t col = first; col < last; ++col) {
    const float value = decode(load_code(q.row(row), col, f.bits), f);
    out[row * l.cols + col] = nan_only && magnitude_bits(value) >= kF32Inf ? canonical_nan() : value;
  }
}

/// Codes of one byte as bf16, which has their values; the format is a row of §2 with E + M = 7.
class ByteDecoder {
 public:
  __device__ explicit ByteDecoder(const ElementFormat& f)
      : shift_(23 - f.mantissa_bits),
        factor_(pow2_f32(127 - f.bias)),
        most_(max_normal_code(f)),
        infinity_(f.specials == Specials::ieee ? inf_code(f) : 0u) {}

  __device__ uint32_t operator()(uint32_t code) const {
    const uint32_t magnitude = code & 0x7Fu;
    const uint32_t value = bits_of(float_of(magnitude << shift_) * factor_) >> 16;  // subnormals become normal
    if (magnitude > most_ && magnitude != infinity_) return kF32CanonicalNaN >> 16;
    return (magnitude <= most_ ? value : kF32Inf >> 16) | (code & 0x80u) << 8;
  }

 private:
  int shift_;
  float factor_;
  uint32_t most_, infinity_;
};

constexpr int kBytesAtOnce = 8;

/// A thread decodes kBytesAtOnce neighbours.
__global__ void decode_bytes(const uint8_t* codes, ElementFormat f, int64_t count, uint16_t* out) {
  const int64_t first = thread_number() * kBytesAtOnce;
  if (first >= count) return;
  const ByteDecoder decoder(f);
  if (count - first < kBytesAtOnce) {
    for (int64_t i = first; i < count; ++i) out[i] = static_cast<uint16_t>(decoder(codes[i]));
    return;
  }
  const uint2 read = *reinterpret_cast<const uint2*>(codes + first);
  uint32_t pairs[kBytesAtOnce / 2];
#pragma unroll
  for (int i = 0; i < kBytesAtOnce / 2; ++i) {
    const uint32_t two = (i < 2 ? read.x : read.y) >> (i % 2 * 16);
    pairs[i] = decoder(two & 0xFFu) | decoder(two >> 8 & 0xFFu) << 16;
  }
  *reinterpret_cast<uint4*>(out + first) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/// Row of codes and code in it of element (matrix, row, k) of an operand.
struct Place {
  int64_t code_row, col;
};
__device__ Place place_of(int64_t matrix, int64_t row, int64_t k, int64_t rows, int64_t depth, bool last) {
  return last ? Place{matrix * rows + row, k} : Place{matrix * depth + k, row};
}

__global__ void widen_scales(PackedView q, bool last, int64_t matrices, int64_t rows, int64_t k, int64_t block,
                             int64_t blocks, int64_t pitch, float* out) {
  const int64_t item = thread_number(), outer = quotient(item, pitch), row = item - outer * pitch;
  if (outer >= matrices * blocks) return;
  const int64_t matrix = quotient(outer, blocks), number = outer - matrix * blocks;
  float scale = 0.0f;
  if (row < rows) {
    const Place p = place_of(matrix, row, number * block, rows, k, last);
    scale = q.scale_at(q.layout.block_of(p.code_row, p.col));
  }
  out[item] = scale;
}

/// An element as a multiple of the smallest step.
__device__ int8_t unit_of(uint32_t code, const ElementFormat& f) {
  const uint32_t sign_bit = 1u << (f.bits - 1), magnitude = code & (sign_bit - 1u);
  if (f.encoding == Encoding::twos_complement)
    return static_cast<int8_t>(static_cast<int>(magnitude) - static_cast<int>(code & sign_bit));
  const uint32_t field = magnitude >> f.mantissa_bits, fraction = magnitude & ((1u << f.mantissa_bits) - 1u);
  const int unit = static_cast<int>(field == 0 ? fraction : (fraction | 1u << f.mantissa_bits) << (field - 1));
  return static_cast<int8_t>((code & sign_bit) != 0 ? -unit : unit);
}

constexpr int kUnitThreads = 256;
constexpr int kTileRows = 64;  // rows of a tile of unit_tiles; it has kUnitSlice k

/// Units of a tile of kTileRows rows and kUnitSlice k; codes that lie along rows (axis first) turn in shared memory.
__global__ void __launch_bounds__(kUnitThreads)
    unit_tiles(PackedView q, bool last, int64_t rows, int64_t k, int64_t padded_rows, int64_t padded_k, int8_t* out) {
  __shared__ __align__(16) int8_t tile[kTileRows][kUnitSlice + 16];
  __shared__ int8_t units[256];  // of every code
  const int64_t tiles_k = padded_k / kUnitSlice, tiles_rows = padded_rows / kTileRows, number = blockIdx.x;
  const int64_t outer = quotient(number, tiles_k), tile_k = number - outer * tiles_k;
  const int64_t matrix = quotient(outer, tiles_rows), first_row = (outer - matrix * tiles_rows) * kTileRows;
  const int64_t first_k = tile_k * kUnitSlice;
  const ElementFormat f = q.element();
  for (int code = static_cast<int>(threadIdx.x); code < 1 << f.bits; code += kUnitThreads)
    units[code] = unit_of(static_cast<uint32_t>(code), f);
  __syncthreads();
  for (int item = static_cast<int>(threadIdx.x); item < kTileRows * kUnitSlice; item += kUnitThreads) {
    const int r = last ? item / static_cast<int>(kUnitSlice) : item % kTileRows;
    const int i = last ? item % static_cast<int>(kUnitSlice) : item / kTileRows;
    int8_t unit = 0;
    if (first_row + r < rows && first_k + i < k) {
      const Place p = place_of(matrix, first_row + r, first_k + i, rows, k, last);
      unit = units[load_code(q.row(p.code_row), p.col, f.bits)];
    }
    tile[r][i] = unit;
  }
  __syncthreads();
  constexpr int kVectors = kUnitSlice / 16;
  for (int item = static_cast<int>(threadIdx.x); item < kTileRows * kVectors; item += kUnitThreads) {
    const int r = item / kVectors, v = item % kVectors;
    int8_t* to = out + (matrix * padded_rows + first_row + r) * padded_k + first_k + v * 16;
    *reinterpret_cast<int4*>(to) = *reinterpret_cast<const int4*>(&tile[r][v * 16]);
  }
}

/// The operand that lies at `data` in the order of its tensor's shape.
template <class T>
RowsOf<T> operand_at(const T* data, const Tensor& t, Axis axis) {
  const MatrixView m = matrix_view(t.type.shape);
  if (axis == Axis::last) return {data, m.matrices, m.rows, m.cols, m.cols, 1};
  return {data, m.matrices, m.cols, m.rows, 1, m.cols};
}

int64_t round_up(int64_t n, int64_t step) { return ceil_div(n, step) * step; }

}  // namespace

Operand operand_shape(const Tensor& t, Axis axis) { return operand_at<float>(nullptr, t, axis); }

bool holds_bf16(const Tensor& t) {
  return t.type.dtype == DType::bf16 ||
         (t.type.dtype == DType::packed && is_unscaled(t.type.spec) && t.type.spec.element == kBf16);
}

Bf16Operand bf16_operand(const Tensor& t, Axis axis) {
  return operand_at(reinterpret_cast<const uint16_t*>(device_data(t.parts[0])), t, axis);
}

Operand decoded_operand(const Tensor& t, Axis axis, Context& context) {
  const int64_t count = element_count(t.type.shape);
  if (t.type.dtype == DType::f32) return operand_at(reinterpret_cast<const float*>(device_data(t.parts[0])), t, axis);
  auto* values = context.scratch<float>(count);
  if (t.type.dtype == DType::bf16) {
    const auto* in = reinterpret_cast<const uint16_t*>(device_data(t.parts[0]));
    context.launch(widen_bf16, context.per_item(count), in, count, values);
  } else {
    decode_packed(t, values, context);
  }
  return operand_at<float>(values, t, axis);
}

Operand element_operand(const Tensor& packed, Axis axis, bool nan_only, Context& context) {
  const PackedView q = view_of(packed);
  auto* values = context.scratch<float>(q.layout.elements());
  context.launch(decode_elements, context.per_item(q.layout.rows * q.layout.groups), q, nan_only, values);
  return operand_at<float>(values, packed, axis);
}

bool elements_lie_in_bytes(const QuantSpec& spec) { return spec.element == kE4m3 || spec.element == kE5m2; }

Bf16Operand bf16_elements(const Tensor& packed, Axis axis, Context& context) {
  const int64_t count = element_count(packed.type.shape);
  auto* values = context.scratch<uint16_t>(count);
  context.launch(decode_bytes, context.per_item(ceil_div(count, kBytesAtOnce)), view_of(packed).codes,
                 packed.type.spec.element, count, values);
  return operand_at<uint16_t>(values, packed, axis);
}

OperandScales operand_scales(const Tensor& packed, Axis axis, int64_t block, Context& context) {
  const PackedView q = view_of(packed);
  const Operand o = operand_shape(packed, axis);
  const int64_t step = block == 0 ? o.k : block, blocks = ceil_div(o.k, step), pitch = round_up(o.rows, kUnitRows);
  auto* scales = context.scratch<float>(o.matrices * blocks * pitch);
  context.launch(widen_scales, context.per_item(o.matrices * blocks * pitch), q, axis == Axis::last, o.matrices, o.rows,
                 o.k, step, blocks, pitch, scales);
  return {scales, blocks, pitch};
}

UnitOperand unit_operand(const Tensor& packed, Axis axis, Context& context) {
  const PackedView q = view_of(packed);
  const Operand o = operand_shape(packed, axis);
  const int64_t rows = round_up(o.rows, kUnitRows), k = round_up(o.k, kUnitSlice);
  auto* units = context.scratch<int8_t>(o.matrices * rows * k);
  context.launch(unit_tiles, Context::per_block(o.matrices * (rows / kTileRows) * (k / kUnitSlice), kUnitThreads), q,
                 axis == Axis::last, o.rows, o.k, rows, k, units);
  return {units, rows, k};
}

}  // namespace fp4sim::gpu
