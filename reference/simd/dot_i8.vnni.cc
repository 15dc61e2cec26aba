// int8 engine of level avx512vnni: vpdpbusd adds four products to an int32 in one instruction.
#include "reference/simd/product_tile_i8.h"

namespace fp4sim::simd {
namespace avx512 {
// Declared here since product_pack.h belongs to the units of another level; packing needs no VNNI.
void pack_transposed_f32(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width);
}  // namespace avx512

namespace FP4SIM_ISA {
namespace {

/// Units are moved as 4 bytes; `stride` counts int8 elements and is a multiple of 4.
void transposed(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  avx512::pack_transposed_f32(from, stride / 4, vectors, depth, to, width);
}

constexpr int kRows = 14;  // 28 dots, two of B, one of A

}  // namespace

constinit const Engine i8_engine = int_engine<kRows>(&transposed);

}  // namespace FP4SIM_ISA
}  // namespace fp4sim::simd
