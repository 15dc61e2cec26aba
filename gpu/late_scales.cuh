// What the dots of blocks are multiplied by before they are added: nothing where the scales are inside of the operands,
// their rows' scales where these wait (LateRows).
#pragma once

#include "gpu/arithmetic.cuh"
#include "gpu/product_outputs.cuh"
#include "gpu/wide_operand.h"

namespace fp4sim::gpu {

/// Scales have gone into the operands: nothing is left for a block's dot.
struct ScalesInside {
  __device__ ScalesInside(const LateRows&, const Tile&, const LanePlace&, int64_t) {}
  __device__ void load() {}
  template <int n>
  __device__ void add(float* sum, const float (&dot)[n], int) const {
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = sum[i] + dot[i];
  }
};

/// The factors of a lane's two rows, 1 where nothing waits: those of the four blocks of a slice, one a byte. Little is
/// kept from slice to slice, for the registers of the products are few.
class LateScales {
 public:
  __device__ LateScales(const LateRows& late, const Tile& tile, const LanePlace& lane, int64_t first_slice)
      : late_(late) {
    const int64_t matrix = tile.matrix * late.matrix_step;
    next_ = static_cast<uint32_t>((matrix * late.slices + first_slice) * late.pitch + lane.row);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t row = lane.row + kApart * h;
      waits_[h] = late.rows != nullptr && row < late.pitch && __ldg(late.rows + matrix * late.pitch + row) != 0;
    }
  }
  /// Reads the factors of the next slice of 128 k.
  __device__ void load() {
#pragma unroll
    for (int h = 0; h < 2; ++h) fields_[h] = waits_[h] ? __ldg(late_.factors + next_ + kApart * h) : kOnes;
    next_ += static_cast<uint32_t>(late_.pitch);
  }
  /// Adds the dots of a block of the slice to the sums: outputs come in pairs of two rows.
  template <int n>
  __device__ void add(float* sum, const float (&dot)[n], int block) const {
    const float factors[2] = {factor(0, block), factor(1, block)};
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = fma32(dot[i], factors[i / 2 % 2], sum[i]);
  }

 private:
  static constexpr int kApart = 8;  // the rows
  static constexpr uint32_t kOnes = 0x7F7F7F7Fu;

  __device__ float factor(int h, int block) const {
    const uint32_t field = block == 3 ? fields_[h] >> 1 : fields_[h] << (23 - 8 * block);
    return __uint_as_float(field & 0x7F800000u);
  }

  const LateRows& late_;
  uint32_t next_;  // a word stands for 128 bytes of the operand: 32 bits count them
  bool waits_[2];
  uint32_t fields_[2];
};

}  // namespace fp4sim::gpu
