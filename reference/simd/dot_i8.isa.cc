// int8 engine without VNNI: sums of pairs in int16 where the formats allow it. SSE2 has no such instruction and takes
// the binary32 engine, which is exact for the same formats.
#if defined(FP4SIM_ISA_sse2)

#include "reference/simd/kernels_product.h"

namespace fp4sim::simd::FP4SIM_ISA {
constinit const Engine i8_narrow_engine{};
}  // namespace fp4sim::simd::FP4SIM_ISA

#else

#include "reference/simd/product_pack.h"
#include "reference/simd/product_tile_i8.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

/// Units are moved as 4 bytes; `stride` counts int8 elements and is a multiple of 4.
void transposed(const void* from, int64_t stride, int64_t vectors, int64_t depth, void* to, int64_t width) {
  pack_transposed_f32(from, stride / 4, vectors, depth, to, width);
}

#if defined(FP4SIM_ISA_avx512)
constexpr int kRows = 12;  // 24 sums, two of B, one of A, a product, ones
#else
constexpr int kRows = 6;
#endif

}  // namespace

constinit const Engine i8_narrow_engine = int_engine<kRows>(&transposed);

}  // namespace fp4sim::simd::FP4SIM_ISA

#endif
