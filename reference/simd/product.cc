// Loops around the tiles: a region of outputs belongs to one worker, which packs what it needs. k is cut into panels of
// §7 and these into depths that fit the caches; every output is one chain in ascending k wherever the cuts fall.
#include "reference/simd/product.h"

#include <algorithm>

#include "reference/contract/reduction_order.h"

namespace fp4sim::simd {
namespace {

constexpr int64_t kRowTiles = 8;      // A tiles packed at a time
constexpr int64_t kColumnTiles = 16;  // B tiles packed at a time
constexpr int64_t kChunkRows = 36 * kMaxTileRows;
constexpr int64_t kInPlaceBytes = 24 << 10;
constexpr int64_t kWorkPerThread = 1 << 19;  // multiply-adds that pay for waking a worker

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows of a matrix in tiles of nearly equal height, at most engine.mr.
struct RowTiles {
  int64_t m, count;
  RowTiles(int64_t rows, int mr) : m(rows), count(ceil_div(rows, mr)) {}
  int64_t begin(int64_t tile) const { return m * tile / count; }
};

/// Outputs of one worker: row tiles [tile_begin, tile_end) counted over all matrices, columns [col_begin, col_end).
struct Region {
  int64_t tile_begin, tile_end, col_begin, col_end;
};

class RegionWorker {
 public:
  RegionWorker(const Product& product, const ProductFinish& finish, std::byte* memory)
      : p_(product), e_(*product.engine), finish_(finish), tiles_(p_.m, e_.mr) {
    a_tile_bytes_ = a_tile_bytes(e_);
    b_tile_bytes_ = e_.depth * e_.nr * e_.unit_bytes;
    a_ = memory, memory += kRowTiles * a_tile_bytes_;
    b_ = memory, memory += kColumnTiles * b_tile_bytes_;
    start_ = reinterpret_cast<int32_t*>(memory), memory += start_bytes(p_);
    scratch_ = memory;
  }

  static int64_t bytes(const Product& p) {
    const Engine& e = *p.engine;
    return kRowTiles * a_tile_bytes(e) + kColumnTiles * e.depth * e.nr * e.unit_bytes + start_bytes(p) +
           scratch_bytes(p);
  }

  void run(const Region& region) const {
    for (int64_t tile = region.tile_begin; tile < region.tile_end;) {
      const int64_t matrix = tile / tiles_.count, base = matrix * tiles_.count;
      const int64_t end = std::min({region.tile_end, base + tiles_.count, tile + kChunkRows / e_.mr});
      const int64_t step = kColumnTiles * e_.nr;
      for (int64_t col = region.col_begin; col < region.col_end; col += step)
        chunk({matrix, tile - base, end - base, col, std::min(step, region.col_end - col)});
      tile = end;
    }
  }

 private:
  struct Chunk {
    int64_t matrix, tile_begin, tile_end, col, cols;
  };
  struct Output {  // where tiles accumulate: y itself, or scratch of 4- or 8-byte elements
    std::byte* data;
    int64_t stride, element_bytes;
  };

  static int64_t a_tile_bytes(const Engine& e) { return e.mr * std::max(e.row_stride, e.depth) * e.unit_bytes; }
  static int64_t block_units(const Product& p) {
    return p.rule == SumRule::blocks ? p.block / p.engine->unit_elements : p.engine->depth;
  }
  static int64_t start_bytes(const Product& p) {
    if (p.engine->start_values == nullptr) return 0;
    return kColumnTiles * ceil_div(p.engine->depth, block_units(p)) * p.engine->nr * 4;
  }
  static bool dots_in_scratch(const Product& p) {
    return p.rule == SumRule::vectors && (p.engine->unit_bytes == 8 || p.engine->start_values != nullptr);
  }
  static int64_t scratch_bytes(const Product& p) {
    if (!dots_in_scratch(p) && p.k <= kPanel) return 0;
    const int64_t rows = std::min(kChunkRows, p.m);
    const int64_t cols = std::min(kColumnTiles, ceil_div(p.n, p.engine->nr)) * p.engine->nr;
    return rows * cols * (dots_in_scratch(p) ? p.engine->unit_bytes : 4);
  }

  int64_t units(int64_t k) const { return ceil_div(k, e_.unit_elements); }
  float* y(const Chunk& c, int64_t row) const { return p_.y + (c.matrix * p_.m + row) * p_.n + c.col; }

  /// All of k for one chunk of outputs.
  void chunk(const Chunk& c) const {
    const int64_t row0 = tiles_.begin(c.tile_begin), rows = tiles_.begin(c.tile_end) - row0;
    const bool dots = dots_in_scratch(p_);
    const int64_t scratch_stride = ceil_div(c.cols, e_.nr) * e_.nr;
    const Output scratch{scratch_, scratch_stride, dots ? e_.unit_bytes : 4};
    const Output home{reinterpret_cast<std::byte*>(y(c, row0)), p_.n, 4};
    // Exact dots of a whole vector are one sum: no panels.
    const int64_t panel = dots ? p_.k : kPanel;
    for (int64_t k = 0; k < p_.k; k += panel) {
      const bool into_scratch = dots || k > 0;
      sum_panel(c, k, std::min(panel, p_.k - k), into_scratch ? scratch : home);
      if (into_scratch && !dots)
        for (int64_t i = 0; i < rows; ++i)
          finish_.add(reinterpret_cast<const float*>(scratch_) + i * scratch_stride, y(c, row0 + i), c.cols);
    }
    for (int64_t i = 0; i < rows; ++i) finish_row(c, row0 + i, scratch_ + i * scratch_stride * scratch.element_bytes);
  }

  void sum_panel(const Chunk& c, int64_t k0, int64_t length, const Output& out) const {
    const int64_t step = e_.depth * e_.unit_elements;
    for (int64_t k = 0; k < length; k += step) {
      const int64_t depth = units(std::min(step, length - k));
      pack_b(c, k0 + k, depth);
      for (int64_t t = c.tile_begin; t < c.tile_end; t += kRowTiles)
        tiles(c, t, std::min(c.tile_end, t + kRowTiles), k0 + k, depth, k == 0, out);
    }
  }

  const std::byte* source(const PlainMatrices& x, bool k_inner, int64_t matrix, int64_t vector, int64_t k) const {
    const int64_t at = k_inner ? vector * x.stride + k : k * x.stride + vector;
    return static_cast<const std::byte*>(x.data) + (matrix * x.matrix_stride + at) * (e_.unit_elements == 4 ? 1 : 4);
  }

  void pack_b(const Chunk& c, int64_t k, int64_t depth) const {
    const PlainMatrices& x = p_.b.values;
    const int64_t starts = ceil_div(e_.depth, block_units(p_)) * e_.nr;
    for (int64_t j = 0, tile = 0; j < c.cols; j += e_.nr, ++tile) {
      const std::byte* from = source(x, p_.b.k_inner, c.matrix, c.col + j, k);
      std::byte* to = b_ + tile * b_tile_bytes_;
      (p_.b.k_inner ? e_.pack_transposed : e_.pack_columns)(from, x.stride, std::min<int64_t>(e_.nr, c.cols - j), depth,
                                                            to, e_.nr);
      if (e_.start_values != nullptr) e_.start_values(to, depth, block_units(p_), p_.offset, start_ + tile * starts);
    }
  }

  /// A small matrix with k outer stays in L1 as it is.
  bool reads_a_in_place(int64_t depth) const {
    return e_.plain_units && !p_.a.k_inner && depth * p_.a.values.stride * 4 <= kInPlaceBytes;
  }

  void pack_a(const Chunk& c, int64_t begin, int64_t end, int64_t k, int64_t depth) const {
    const PlainMatrices& x = p_.a.values;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = tiles_.begin(t), rows = tiles_.begin(t + 1) - row;
      const std::byte* from = source(x, p_.a.k_inner, c.matrix, row, k);
      std::byte* to = a_ + (t - begin) * a_tile_bytes_;
      if (p_.a.k_inner)
        e_.pack_rows(from, x.stride, rows, depth, to);
      else
        e_.pack_columns(from, x.stride, rows, depth, to, e_.mr);
    }
  }

  void tiles(const Chunk& c, int64_t begin, int64_t end, int64_t k, int64_t depth, bool first,
             const Output& out) const {
    const bool in_place = reads_a_in_place(depth);
    if (!in_place) pack_a(c, begin, end, k, depth);
    Tile tile{};
    tile.a_stride = in_place ? p_.a.values.stride : e_.mr;
    tile.depth = depth, tile.first = first, tile.out_stride = out.stride;
    tile.narrow = p_.narrow;
    const bool blocks = p_.rule == SumRule::blocks;
    tile.block = block_units(p_);
    const int64_t starts = ceil_div(e_.depth, block_units(p_)) * e_.nr;
    const float *sa = nullptr, *sb = nullptr;
    if (blocks) {
      const ScaleMatrices &as = p_.a.scales, &bs = p_.b.scales;
      sa = as.data + c.matrix * as.matrix_stride + k / p_.block * as.stride;
      sb = bs.data + c.matrix * bs.matrix_stride + k / p_.block * bs.stride;
      tile.a_scale_stride = as.stride, tile.b_scale_stride = bs.stride;
    }
    const auto& kernels = (blocks ? e_.block_product : e_.chain)[p_.a.k_inner ? kRowsForm : kColumnsForm];
    const int64_t row0 = tiles_.begin(c.tile_begin);
    for (int64_t j = 0, column_tile = 0; j < c.cols; j += e_.nr, ++column_tile) {
      tile.b = b_ + column_tile * b_tile_bytes_;
      tile.start = start_ + column_tile * starts;
      tile.cols = static_cast<int>(std::min<int64_t>(e_.nr, c.cols - j));
      if (blocks) tile.b_scale = sb + c.col + j;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = tiles_.begin(t);
        tile.a = in_place ? source(p_.a.values, false, c.matrix, row, k) : a_ + (t - begin) * a_tile_bytes_;
        if (blocks) tile.a_scale = sa + row;
        tile.out = out.data + ((row - row0) * out.stride + j) * out.element_bytes;
        kernels[tiles_.begin(t + 1) - row - 1](tile);
      }
    }
  }

  /// Vector scales, then fl(fl(y·d_a)·d_b), then the factor of sr34.
  void finish_row(const Chunk& c, int64_t row, const std::byte* dots) const {
    float* out = y(c, row);
    if (p_.rule == SumRule::vectors) {
      const float sa = p_.a.scales.data[c.matrix * p_.a.scales.matrix_stride + row];
      const float* sb = p_.b.scales.data + c.matrix * p_.b.scales.matrix_stride + c.col;
      if (!dots_in_scratch(p_))
        finish_.scale_f32(out, sa, sb, out, c.cols);
      else if (e_.unit_bytes == 8)
        finish_.scale_f64(reinterpret_cast<const double*>(dots), sa, sb, out, c.cols);
      else
        finish_.scale_i32(reinterpret_cast<const int32_t*>(dots), p_.unit, sa, sb, out, c.cols);
    }
    for (const float* d : {p_.a.tensor_scale, p_.b.tensor_scale})
      if (d != nullptr) finish_.multiply(*d, out, c.cols);
    if (p_.rescale != 1.0f) finish_.multiply(p_.rescale, out, c.cols);
  }

  const Product& p_;
  const Engine& e_;
  const ProductFinish& finish_;
  RowTiles tiles_;
  int64_t a_tile_bytes_, b_tile_bytes_;
  std::byte *a_, *b_, *scratch_;
  int32_t* start_;
};

/// Regions for at most `workers` workers. Several matrices, or one that is tall: rows; else the grid with the least
/// packing.
std::vector<Region> regions(const Product& p, int workers) {
  const int64_t tiles = p.matrices * RowTiles(p.m, p.engine->mr).count, col_tiles = ceil_div(p.n, p.engine->nr);
  int64_t rows = std::min<int64_t>(workers, tiles), cols = 1;
  if (p.matrices == 1) {
    double least = 1e300;
    for (int64_t r = 1; r <= std::min<int64_t>(workers, tiles); ++r) {
      const int64_t q = std::min(workers / r, col_tiles);
      // time of the largest region, packing counted as 1/64 of a column's or row's work
      const auto height = static_cast<double>(ceil_div(tiles, r) * p.engine->mr);
      const auto width = static_cast<double>(ceil_div(col_tiles, q) * p.engine->nr);
      const double cost = height * width + 4 * (height + width);
      if (cost < least) least = cost, rows = r, cols = q;
    }
  }
  std::vector<Region> list;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t q = 0; q < cols; ++q)
      list.push_back({tiles * r / rows, tiles * (r + 1) / rows, col_tiles * q / cols * p.engine->nr,
                      std::min(p.n, col_tiles * (q + 1) / cols * p.engine->nr)});
  return list;
}

}  // namespace

void run_product(const Product& product, const Context& context, Arena& arena) {
  const int64_t work = product.matrices * product.m * product.n * product.k;
  const auto workers = static_cast<int>(std::clamp<int64_t>(work / kWorkPerThread, 1, context.threads));
  const std::vector<Region> list = regions(product, workers);
  const auto count = static_cast<int64_t>(list.size());
  const int64_t bytes = ceil_div(RegionWorker::bytes(product), 64) * 64;
  std::byte* memory = arena.take<std::byte>(count * bytes);
  const ProductFinish& finish = pick_product_finish(context.level);
  parallel_for(context, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      RegionWorker(product, finish, memory + i * bytes).run(list[static_cast<size_t>(i)]);
  });
}

}  // namespace fp4sim::simd
