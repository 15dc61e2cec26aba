// Binary32 engines: the fp32 rule, and dots known to be exact in binary32.
#include "reference/simd/product_pack.h"
#include "reference/simd/product_tile.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

// B tile of depth × nr and one A tile stay in L1; rows are kept 16 elements apart from multiples of 4 KiB.
constexpr int64_t kDepth = 256;
constexpr int64_t kRowStride = kDepth + 16;
#if defined(FP4SIM_ISA_avx512)
constexpr int kRows = 14;  // 28 accumulators of 32 registers
#elif defined(FP4SIM_ISA_avx2)
constexpr int kRows = 6;  // 12 accumulators of 16 registers
#else
constexpr int kRows = 4;
#endif

template <class Arithmetic>
constexpr Engine engine() {
  using Tiles = FloatTiles<Arithmetic, kRowStride>;
  Engine e{};
  e.mr = kRows, e.nr = Tiles::kNr, e.unit_bytes = 4, e.unit_elements = 1, e.depth = kDepth, e.row_stride = kRowStride;
  e.plain_units = true;
  e.pack_columns = &pack_columns_f32, e.pack_transposed = &pack_transposed_f32,
  e.pack_rows = &pack_rows_f32<kRowStride>;
  fill_kernels<Tiles>(e, std::make_integer_sequence<int, kRows>{});
  return e;
}

}  // namespace

constinit const Engine f32_engine = engine<F32Chain>();
#if defined(FP4SIM_ISA_sse2)
constinit const Engine f32_exact_engine = engine<F32Exact>();
#else
constinit const Engine f32_exact_engine = engine<F32Chain>();
#endif

}  // namespace fp4sim::simd::FP4SIM_ISA
