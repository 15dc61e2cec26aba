#include "reference/simd/block_amax.h"

#include <algorithm>
#include <bit>

#include "reference/contract/hd.h"

namespace fp4sim::simd {
namespace {

std::vector<uint32_t> amax_of_runs(const float* x, const ValueType& packed, const Context& context) {
  const RunLayout layout(packed);
  const ScaleKernels& kernels = pick_scale_kernels(context.level);
  const bool one_block = layout.block() == kOneBlock;
  std::vector<uint32_t> amax(static_cast<size_t>(one_block ? layout.count() : scale_grid(packed).count()));
  parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Run r = layout.run(i);
      kernels.amax_blocks(x + r.begin, r.n, layout.block(), amax.data() + (one_block ? i : r.scales));
    }
  });
  if (one_block) amax = {amax.empty() ? 0 : *std::max_element(amax.begin(), amax.end())};
  return amax;
}

std::vector<uint32_t> amax_of_tiles(const float* x, const ValueType& packed, const Context& context) {
  const TileLayout layout(packed);
  const ScaleKernels& kernels = pick_scale_kernels(context.level);
  constexpr int64_t kColumns = TileLayout::kColumns;
  std::vector<uint32_t> of_tile(static_cast<size_t>(layout.count() * kColumns));
  parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) tile_amax(kernels, layout, layout.tile(i), x, of_tile.data() + i * kColumns);
  });
  std::vector<uint32_t> grid(static_cast<size_t>(scale_grid(packed).count()));
  for (int64_t i = 0; i < layout.count(); ++i) {
    const Tile t = layout.tile(i);
    for (int64_t s = 0; s < layout.scales(t); ++s) {
      uint32_t& to = grid[static_cast<size_t>(t.scales + s)];
      to = std::max(to, of_tile[static_cast<size_t>(i * kColumns + s)]);
    }
  }
  return grid;
}

}  // namespace

std::vector<uint32_t> block_amax(const float* x, const ValueType& packed, const Context& context) {
  return TileLayout::fits(packed) ? amax_of_tiles(x, packed, context) : amax_of_runs(x, packed, context);
}

void tile_amax(const ScaleKernels& kernels, const TileLayout& layout, const Tile& t, const float* x, uint32_t* amax) {
  kernels.amax_columns(x + t.begin, t.rows, layout.stride(), t.cols, amax);
  const int64_t block = layout.factor_block();
  if (block == 0) return;
  for (int64_t s = 0; s < layout.scales(t); ++s)
    amax[s] = *std::max_element(amax + s * block, amax + std::min(t.cols, (s + 1) * block));
}

float finite_block_amax(const float* x, const ValueType& packed, const Context& context) {
  const RunLayout layout(packed);
  const ScaleKernels& kernels = pick_scale_kernels(context.level);
  std::vector<uint32_t> of_run(static_cast<size_t>(layout.count()));
  parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
    std::vector<uint32_t> amax(static_cast<size_t>(layout.most_blocks()));
    for (int64_t i = begin; i < end; ++i) {
      const Run r = layout.run(i);
      std::fill(amax.begin(), amax.end(), 0u);
      kernels.amax_blocks(x + r.begin, r.n, layout.block(), amax.data());
      of_run[static_cast<size_t>(i)] = std::bit_cast<uint32_t>(finite_amax(amax));
    }
  });
  return finite_amax(of_run);
}

float finite_amax(const std::vector<uint32_t>& amax) {
  uint32_t largest = 0;
  for (const uint32_t a : amax) largest = a < kF32Inf && a > largest ? a : largest;
  return std::bit_cast<float>(largest);
}

float finite_element_amax(const float* x, int64_t n, const Context& context) {
  constexpr int64_t kPiece = 1 << 14;
  const WideKernels& kernels = pick_wide_kernels(context.level);
  std::vector<uint32_t> pieces(static_cast<size_t>((n + kPiece - 1) / kPiece));
  parallel_for(context, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      pieces[static_cast<size_t>(i)] = kernels.finite_amax(x + i * kPiece, std::min(kPiece, n - i * kPiece));
  });
  return finite_amax(pieces);
}

}  // namespace fp4sim::simd
