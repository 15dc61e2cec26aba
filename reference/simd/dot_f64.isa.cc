// Binary64 engine: exact dots within the budget of 53 bits (§7); operands come as binary32 and are widened when packed.
#include "reference/simd/product_pack.h"
#include "reference/simd/product_tile.h"

namespace fp4sim::simd::FP4SIM_ISA {
namespace {

constexpr int64_t kDepth = 256;
constexpr int64_t kRowStride = kDepth + 8;
#if defined(FP4SIM_ISA_avx512)
constexpr int kRows = 14;
#elif defined(FP4SIM_ISA_avx2)
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif

constexpr Engine engine() {
  using Tiles = FloatTiles<F64Exact, kRowStride>;
  Engine e{};
  e.mr = kRows, e.nr = Tiles::kNr, e.unit_bytes = 8, e.unit_elements = 1, e.depth = kDepth, e.row_stride = kRowStride;
  e.pack_columns = &pack_columns_f64, e.pack_transposed = &pack_transposed_f64,
  e.pack_rows = &pack_rows_f64<kRowStride>;
  fill_kernels<Tiles>(e, std::make_integer_sequence<int, kRows>{});
  return e;
}

}  // namespace

constinit const Engine f64_engine = engine();

}  // namespace fp4sim::simd::FP4SIM_ISA
