// Products of nvfp4 operands whose sums cuda observes: tiles that stay below their limits, that leave them in the last
// slices of a panel, and that have none; sums up to the limit itself, where the tensor cores must still be exact. The
// results are those of scalar.
#include <fmt/format.h>

#include "tests/gpu_products.h"

namespace fp4sim::test {
namespace {

constexpr uint32_t kSix = 7, kHalf = 1, kSign = 8;  // codes of e2m1
constexpr uint32_t kOne = 0x38, kNaN = 0x7F;        // of e4m3
constexpr uint32_t kNegative = 0x80;

/// Tiles have 192 rows and 128 columns.
const Size kSizes[] = {{40, 24, 16},
                       {250, 140, 200},
                       {200, 130, 1104, Axis::first, Axis::last},
                       {208, 144, 1056, Axis::last, Axis::first},
                       {66, 40, 2080, Axis::first, Axis::first},
                       {33, 70, 1000},
                       {24, 40, 9000},
                       {32, 48, 1100, Axis::last, Axis::first, 3}};

class GpuObservedSums : public ComparesProducts {
 protected:
  void compare_nvfp4(const Size& s, const Choice& scales_a, const Choice& codes_a, const Choice& scales_b,
                     const Choice& codes_b, const std::string& what) {
    PackedOperand a = operand("nvfp4", s.a, s.matrices, s.m, s.k, scales_a, codes_a);
    PackedOperand b = operand("nvfp4", s.b, s.matrices, s.n, s.k, scales_b, codes_b);
    a.d = 0x1.8p-9f, b.d = 0x1.2468ap-3f;
    compare(a, b, fmt::format("{}: {}×{}×{}", what, s.m, s.n, s.k));
  }
};

/// Scales as amax gives them for normally distributed values: of few binades.
Choice ordinary_scales(int64_t salt) {
  return [salt](int64_t vector, int64_t block) { return kOne - 4 + mixed(vector + 999983 * salt, block) % 12; };
}

TEST_F(GpuObservedSums, ordinary_values) {
  for (const Size& s : kSizes)
    compare_nvfp4(s, ordinary_scales(1), any_code(1), ordinary_scales(2), any_code(2), "ordinary");
}

TEST_F(GpuObservedSums, zero_negative_and_subnormal_scales) {
  for (const Size& s : kSizes) {
    const Choice zeros = [](int64_t vector, int64_t block) {
      const uint32_t r = mixed(vector, block);
      return r % 5 == 0 ? 0u : ordinary_scales(1)(vector, block);
    };
    const Choice signs = [](int64_t vector, int64_t block) {
      return ordinary_scales(1)(vector, block) | (mixed(vector, block) % 2 == 0 ? kNegative : 0u);
    };
    const Choice subnormal = [](int64_t vector, int64_t block) {
      return mixed(vector, block) % 8 | (mixed(block, vector) % 2 == 0 ? kNegative : 0u);
    };
    const Choice none = [](int64_t, int64_t block) { return block % 2 == 0 ? 0u : kNegative; };
    for (const Choice& scales : {zeros, signs, subnormal, none}) {
      compare_nvfp4(s, scales, any_code(3), ordinary_scales(2), any_code(4), "special scales");
      compare_nvfp4(s, ordinary_scales(2), any_code(3), scales, any_code(4), "special scales of b");
    }
  }
}

TEST_F(GpuObservedSums, tiles_without_a_limit) {
  // In all tiles but the first of the larger products one scale is far off, or NaN.
  for (const Size& s : kSizes)
    for (const uint32_t special : {1u, 0x7Eu, kNaN, kNaN | kNegative}) {
      const int64_t at = s.m > 192 ? 195 : s.m / 2, block = s.k / 16 / 2;
      const Choice scales = [=](int64_t vector, int64_t b) {
        return vector == at && b == block ? special : ordinary_scales(5)(vector, b);
      };
      const Choice codes = [=](int64_t vector, int64_t k) {
        return special == kNaN && k / 16 == block ? 0u : any_code(5)(vector, k);
      };
      compare_nvfp4(s, scales, codes, ordinary_scales(6), any_code(6), fmt::format("scale {}", special));
    }
}

/// Sums of both signs of 132² units a product from k 16 on, after three of 11²: beyond 2^24 units, 963 products later,
/// an exact sum lies between two floats, one of them half as far in units of its last place as the other.
constexpr uint32_t kElevenEighths = kOne + 3;
uint32_t odd_code(int64_t k) { return k < 3 ? kHalf : k < 16 ? 0u : kSix; }
uint32_t half_code(int64_t k) { return k < 16 ? kHalf : kSix; }

TEST_F(GpuObservedSums, sums_that_leave_their_limit_late) {
  // Rows or columns of one tile, where there are several; whole products else. The panel after it is harmless.
  for (const Size& s : kSizes) {
    const int64_t first = s.m > 192 ? 192 : 0;
    const Choice scales = [](int64_t, int64_t) { return kElevenEighths; };
    const Choice growing = [=](int64_t vector, int64_t k) {
      return vector % s.m < first || k >= 1024 ? any_code(7)(vector, k) : odd_code(k);
    };
    const Choice up = [](int64_t vector, int64_t k) { return half_code(k) | (vector % 2 != 0 ? kSign : 0u); };
    compare_nvfp4(s, scales, growing, scales, up, "late");
    compare_nvfp4({s.n, s.m, s.k, s.a, s.b, s.matrices}, scales, up, scales, growing, "late columns");
  }
}

TEST_F(GpuObservedSums, sums_up_to_two_to_the_24_units) {
  // One sign for `rising` k, then both in turns: the largest sum is just below or just above 2^24 units, in the middle
  // of a slice or at its end.
  const Choice scales = [](int64_t, int64_t) { return kElevenEighths; };
  for (int64_t rising = 955; rising <= 1015; rising += 3) {
    const Choice a = [=](int64_t vector, int64_t k) {
      const int64_t last = rising + vector % 3;
      return odd_code(k) | (k < last || (k - last) % 2 != 0 ? 0u : kSign);
    };
    const Choice b = [](int64_t vector, int64_t k) { return half_code(k) | (vector % 2 != 0 ? kSign : 0u); };
    for (const Axis axis : {Axis::last, Axis::first})
      compare_nvfp4({40, 24, 1024 + 64, axis, axis}, scales, a, scales, b, fmt::format("rising for {}", rising));
  }
}

TEST_F(GpuObservedSums, values_that_come_back_within_a_slice) {
  // Four blocks of one sign, then a block forth and a block back: what is seen is below what is summed on the way. Of
  // the scales some leave 2^24 units there alone; the three odd products of the first block decide how that rounds.
  const Size s{70, 72, 1024};
  for (uint32_t scale = kOne - 8; scale <= kOne + 8; ++scale) {
    const Choice scales = [=](int64_t, int64_t block) { return block == 0 ? kOne - 15 : scale; };
    const Choice forth_and_back = [](int64_t, int64_t k) {
      const int64_t block = k / 16;
      return block == 7 ? 0u : odd_code(k) | (block > 4 && block % 2 == 0 ? kSign : 0u);
    };
    const Choice plus = [](int64_t, int64_t k) { return half_code(k); };
    compare_nvfp4(s, scales, forth_and_back, scales, plus, fmt::format("scale {}", scale));
  }
}

}  // namespace
}  // namespace fp4sim::test
