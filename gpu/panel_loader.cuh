// How slices of an operand of the fp32 rule get to shared memory as [k][row], whatever way they lie in global memory.
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/product.cuh"
#include "gpu/tensor_core.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {

constexpr int kPanelThreads = 128;
constexpr int kPanelSlice = 16;  // k of one slice

/// Four neighbours of an operand as they are read, and their values.
struct FourF32 {
  float4 v;

  __device__ void read(const float* from) { v = *reinterpret_cast<const float4*>(from); }
  __device__ void read_some(const float* from, int count) {
    v = make_float4(count > 0 ? from[0] : 0.0f, count > 1 ? from[1] : 0.0f, count > 2 ? from[2] : 0.0f,
                    count > 3 ? from[3] : 0.0f);
  }
  __device__ float4 values() const { return v; }
};
struct FourBf16 {
  uint2 v;

  __device__ void read(const uint16_t* from) { v = *reinterpret_cast<const uint2*>(from); }
  __device__ void read_some(const uint16_t* from, int count) {
    v.x = (count > 0 ? from[0] : 0u) | (count > 1 ? from[1] : 0u) << 16;
    v.y = (count > 2 ? from[2] : 0u) | (count > 3 ? from[3] : 0u) << 16;
  }
  __device__ float4 values() const {
    constexpr uint32_t kHigh = 0xFFFF0000u;
    return make_float4(float_of(v.x << 16), float_of(v.x & kHigh), float_of(v.y << 16), float_of(v.y & kHigh));
  }
};
FourF32 four_of(const float*);
FourBf16 four_of(const uint16_t*);

constexpr int kLoadRows = 32;  // rows that the block loads at once

/// One slice of kRows rows of an operand on its way to a buffer: `begin` starts, `finish` ends it before a barrier;
/// `take` says which loads of kLoadRows rows are wanted, if not all. What lies outside of the operand is zero. Through
/// registers, widened on the way.
template <class T, int kRows, bool k_contiguous>
class SliceLoader {
 public:
  static constexpr int kPitch = kRows + 4;  // of a buffer; the odd number of float4s keeps stores of one column apart

  /// k contiguous: two lanes take 8 k of a row, so that the 16 rows of a warp are stored to different banks.
  __device__ SliceLoader(const RowsOf<T>& o, int64_t matrix, int64_t first_row, int64_t first_k)
      : row_(static_cast<int>(k_contiguous ? threadIdx.x % 32 / 2 + threadIdx.x / 64 * 16 : threadIdx.x % 8 * 4)),
        k_(static_cast<int>(k_contiguous ? threadIdx.x % 2 * 4 + threadIdx.x / 32 % 2 * 8 : threadIdx.x / 8)),
        rows_left_(static_cast<int>(least(o.rows - first_row, kRows))),
        from_(o.matrix(matrix) +
              (k_contiguous ? (first_row + row_) * o.k + first_k + k_ : (first_k + k_) * o.rows + first_row + row_)),
        stride_(k_contiguous ? o.k : o.rows),
        vectors_(o.aligned() && rows_left_ == kRows) {}

  __device__ void take(int first, int last) { first_ = first, last_ = last; }

  /// Reads the next slice, of which `k_left` k exist.
  __device__ void begin(int64_t k_left, float (*)[kPitch]) {
    if (vectors_ && k_left >= kPanelSlice) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (takes(i)) held_[i].read(from_ + i * across());
    } else {
      const int left = static_cast<int>(least(k_left, kPanelSlice)) - k_;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int rows_left = takes(i) ? rows_left_ - row_ - i * kLoadRows : 0;
        held_[i].read_some(from_ + i * across(),
                           k_contiguous ? (rows_left > 0 ? left : 0) : (left > 0 ? rows_left : 0));
      }
    }
    from_ += kPanelSlice * (k_contiguous ? 1 : stride_);
  }
  __device__ void finish(float (*slice)[kPitch]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (!takes(i)) continue;
      const float4 v = held_[i].values();
      const int row = row_ + i * kLoadRows;
      if (k_contiguous) {
        slice[k_][row] = v.x, slice[k_ + 1][row] = v.y, slice[k_ + 2][row] = v.z, slice[k_ + 3][row] = v.w;
      } else {
        *reinterpret_cast<float4*>(&slice[k_][row]) = v;
      }
    }
  }

 private:
  static constexpr int kLoads = kRows / kLoadRows;
  __device__ int64_t across() const { return k_contiguous ? kLoadRows * stride_ : kLoadRows; }
  __device__ bool takes(int i) const { return i >= first_ && i < last_; }

  int row_, k_, rows_left_;
  int first_ = 0, last_ = kLoads;
  const T* from_;
  int64_t stride_;
  bool vectors_;
  decltype(four_of(static_cast<const T*>(nullptr))) held_[kLoads];
};

/// f32 whose rows are contiguous: asynchronous copies, no registers.
template <int kRows>
class SliceLoader<float, kRows, false> {
 public:
  static constexpr int kPitch = kRows + 4;

  __device__ SliceLoader(const Operand& o, int64_t matrix, int64_t first_row, int64_t first_k)
      : row_(static_cast<int>(threadIdx.x % 8 * 4)),
        k_(static_cast<int>(threadIdx.x / 8)),
        rows_left_(static_cast<int>(least(o.rows - first_row, kRows))),
        from_(o.matrix(matrix) + (first_k + k_) * o.rows + first_row + row_),
        advance_(kPanelSlice * o.rows),
        vectors_(o.aligned() && rows_left_ == kRows) {}

  __device__ void take(int first, int last) { first_ = first * kLoadRows, last_ = last * kLoadRows; }

  __device__ void begin(int64_t k_left, float (*slice)[kPitch]) {
    if (vectors_ && k_left >= kPanelSlice) {
#pragma unroll
      for (int i = 0; i < kRows; i += kLoadRows)
        if (i >= first_ && i < last_) copy_async16(&slice[k_][row_ + i], from_ + i);
    } else {
#pragma unroll 1
      for (int i = first_; i < last_; i += kLoadRows)
#pragma unroll
        for (int c = i; c < i + 4; ++c) slice[k_][row_ + c] = k_ < k_left && row_ + c < rows_left_ ? from_[c] : 0.0f;
    }
    from_ += advance_;
    commit_copies();
  }
  __device__ void finish(float (*)[kPitch]) const { wait_copies<0>(); }

 private:
  int row_, k_, rows_left_;
  int first_ = 0, last_ = kRows;
  const float* from_;
  int64_t advance_;
  bool vectors_;
};

}  // namespace fp4sim::gpu
