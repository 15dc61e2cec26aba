// quantize and dequantize of the simd backend: cuts tensors into runs and tiles and calls the level's kernels.
#include <cstring>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_layout.h"
#include "reference/simd/quant_plan.h"

namespace fp4sim::simd {
namespace {

/// Address of scale number `index`, bytes or binary32.
std::byte* scale_at(const Tensor& q, int64_t index) {
  return out_data<std::byte>(q, 1) + index * (q.type.spec.scale == ScaleFormat::fp32 ? 4 : 1);
}

/// Scratch of one thread for the blocks of a run or the columns of a tile.
struct BlockScratch {
  explicit BlockScratch(int64_t blocks) : amax(static_cast<size_t>(blocks)), factors(static_cast<size_t>(blocks)) {}
  std::vector<uint32_t> amax;
  std::vector<float> factors;
};

class Quantizer {
 public:
  Quantizer(const NodeCall& call, const Context& context)
      : context_(context),
        q_(call.out[0]),
        spec_(q_.type.spec),
        x_(in_data<float>(call.in[0])),
        codes_(out_data<uint8_t>(q_)),
        scale_(pick_scale_kernels(context.level)),
        encode_(pick_encode_kernels(context.level)),
        job_{make_codec(spec_), scaling_of(spec_), {}} {
    if (spec_.rounding != Rounding::sr32) return;
    job_.random = random_bits(call, 1);
    first_ = call.node.attrs.integer("row_offset") * matrix_view(q_.type.shape).cols;
  }

  void run() {
    if (element_count(q_.type.shape) == 0) return store_empty();
    if (TileLayout::fits(q_.type)) return run_tiles();
    const RunLayout layout(q_.type);
    if (is_unscaled(spec_)) return encode_runs(layout, nullptr);
    if (layout.block() == kOneBlock) return run_tensor(layout);
    run_blocks(layout);
  }

 private:
  /// Scales without elements (row and tensor granularity) are those of zero blocks.
  void store_empty() {
    const ScalePlan plan = make_scale_plan(spec_, 0.0f);
    store_tensor_scale(plan);
    const std::vector<uint32_t> amax(static_cast<size_t>(is_unscaled(spec_) ? 0 : scale_grid(q_.type).count()));
    if (!amax.empty()) scale_.store_scales(plan, amax.data(), static_cast<int64_t>(amax.size()), scale_at(q_, 0));
  }

  void store_tensor_scale(const ScalePlan& plan) {
    if (has_tensor_scale(spec_)) *out_data<float>(q_, 2) = plan.d;
  }

  /// A of §4.2: the largest amax of the finite blocks.
  static float finite_amax(const std::vector<uint32_t>& amax) {
    uint32_t largest = 0;
    for (const uint32_t a : amax) largest = a < kF32Inf && a > largest ? a : largest;
    float value;
    std::memcpy(&value, &largest, sizeof value);
    return value;
  }

  /// Codes of every run with one factor (or none) for all of them.
  void encode_runs(const RunLayout& layout, const float* factor) {
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        encode_.encode(job_, x_ + r.begin, r.n, {factor, kOneBlock}, first_ + r.begin, codes_ + r.codes);
      }
    });
  }

  void run_tensor(const RunLayout& layout) {
    std::vector<uint32_t> partial(static_cast<size_t>(layout.count()));
    amax_of_runs(
        layout, [](int64_t i, const Run&) { return i; }, partial);
    uint32_t amax = 0;
    for (const uint32_t a : partial) amax = std::max(amax, a);
    const ScalePlan plan = make_scale_plan(spec_, finite_amax({amax}));
    store_tensor_scale(plan);
    float factor = 0;
    scale_.store_scales(plan, &amax, 1, scale_at(q_, 0));
    scale_.encode_factors(plan, scale_at(q_, 0), 1, &factor);
    encode_runs(layout, &factor);
  }

  template <class Place>
  void amax_of_runs(const RunLayout& layout, const Place& place, std::vector<uint32_t>& amax) {
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        scale_.amax_blocks(x_ + r.begin, r.n, layout.block(), amax.data() + place(i, r));
      }
    });
  }

  void run_blocks(const RunLayout& layout) {
    // A tensor scale needs every block's amax first; otherwise a run is read once, and again from the cache.
    std::vector<uint32_t> grid;
    if (has_tensor_scale(spec_)) {
      grid.resize(static_cast<size_t>(scale_grid(q_.type).count()));
      amax_of_runs(
          layout, [](int64_t, const Run& r) { return r.scales; }, grid);
    }
    const ScalePlan plan = make_scale_plan(spec_, finite_amax(grid));
    store_tensor_scale(plan);
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      BlockScratch scratch(layout.most_blocks());
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        const uint32_t* amax = scratch.amax.data();
        if (grid.empty())
          scale_.amax_blocks(x_ + r.begin, r.n, layout.block(), scratch.amax.data());
        else
          amax = grid.data() + r.scales;
        scale_.store_scales(plan, amax, layout.blocks(r), scale_at(q_, r.scales));
        scale_.encode_factors(plan, scale_at(q_, r.scales), layout.blocks(r), scratch.factors.data());
        encode_.encode(job_, x_ + r.begin, r.n, {scratch.factors.data(), layout.block()}, first_ + r.begin,
                       codes_ + r.codes);
      }
    });
  }

  /// amax of every column of every block, in the order of the scales.
  std::vector<uint32_t> amax_of_tiles(const TileLayout& layout) {
    constexpr int64_t kColumns = TileLayout::kColumns;
    std::vector<uint32_t> of_tile(static_cast<size_t>(layout.count() * kColumns));
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Tile t = layout.tile(i);
        scale_.amax_columns(x_ + t.begin, t.rows, layout.stride(), t.cols, of_tile.data() + i * kColumns);
      }
    });
    std::vector<uint32_t> grid(static_cast<size_t>(scale_grid(q_.type).count()));
    for (int64_t i = 0; i < layout.count(); ++i) {
      const Tile t = layout.tile(i);
      const uint32_t* from = of_tile.data() + i * kColumns;
      for (int64_t c = 0; c < t.cols; ++c) {
        uint32_t& to = grid[static_cast<size_t>(t.scales + c)];
        to = std::max(to, from[c]);
      }
    }
    return grid;
  }

  void run_tiles() {
    const TileLayout layout(q_.type);
    std::vector<uint32_t> grid;
    if (has_tensor_scale(spec_) || layout.shares_scales()) grid = amax_of_tiles(layout);
    const ScalePlan plan = make_scale_plan(spec_, finite_amax(grid));
    store_tensor_scale(plan);
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      BlockScratch scratch(TileLayout::kColumns);
      for (int64_t i = begin; i < end; ++i) quantize_tile(layout, layout.tile(i), plan, grid, scratch);
    });
  }

  void quantize_tile(const TileLayout& layout, const Tile& t, const ScalePlan& plan, const std::vector<uint32_t>& grid,
                     BlockScratch& scratch) {
    const uint32_t* amax = scratch.amax.data();
    if (grid.empty())
      scale_.amax_columns(x_ + t.begin, t.rows, layout.stride(), t.cols, scratch.amax.data());
    else
      amax = grid.data() + t.scales;
    scale_.store_scales(plan, amax, t.cols, scale_at(q_, t.scales));
    scale_.encode_factors(plan, scale_at(q_, t.scales), t.cols, scratch.factors.data());
    for (int64_t row = 0; row < t.rows; ++row) {
      const int64_t at = t.begin + row * layout.stride();
      encode_.encode(job_, x_ + at, t.cols, {scratch.factors.data(), 0}, first_ + at,
                     codes_ + t.codes + row * layout.code_row_bytes());
    }
  }

  const Context& context_;
  const Tensor& q_;
  const QuantSpec& spec_;
  const float* x_;
  uint8_t* codes_;
  const ScaleKernels& scale_;
  const EncodeKernels& encode_;
  EncodeJob job_;
  int64_t first_ = 0;  // index of x[0] in the logical tensor
};

void copy_canonical(const float* x, int64_t n, float* y, const Context& context) {
  const EncodeKernels& kernels = pick_encode_kernels(context.level);
  parallel_for(context, n, 1 << 14,
               [&](int64_t begin, int64_t end) { kernels.copy_canonical(x + begin, end - begin, y + begin); });
}

/// The codes' values, times the scales in `factors`: nullptr for unscaled levels.
void decode_runs(const Tensor& q, const RunLayout& layout, const ScalePlan& plan, float* out, const Context& context) {
  const Codec codec = make_codec(q.type.spec);
  const bool scaled = !is_unscaled(q.type.spec);
  const float* d = has_tensor_scale(q.type.spec) ? &plan.d : nullptr;
  const auto* codes = in_data<uint8_t>(q);
  const DecodeKernels& kernels = pick_decode_kernels(context.level);
  const ScaleKernels& scale = pick_scale_kernels(context.level);
  parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
    BlockScratch scratch(layout.most_blocks());
    for (int64_t i = begin; i < end; ++i) {
      const Run r = layout.run(i);
      if (scaled) scale.decode_factors(plan, scale_at(q, r.scales), layout.blocks(r), scratch.factors.data());
      kernels.decode(codec, codes + r.codes, r.n, {scaled ? scratch.factors.data() : nullptr, layout.block()}, d,
                     out + r.begin);
    }
  });
}

void decode_tiles(const Tensor& q, const ScalePlan& plan, float* out, const Context& context) {
  const TileLayout layout(q.type);
  const Codec codec = make_codec(q.type.spec);
  const float* d = has_tensor_scale(q.type.spec) ? &plan.d : nullptr;
  const auto* codes = in_data<uint8_t>(q);
  const DecodeKernels& kernels = pick_decode_kernels(context.level);
  const ScaleKernels& scale = pick_scale_kernels(context.level);
  parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
    BlockScratch scratch(TileLayout::kColumns);
    for (int64_t i = begin; i < end; ++i) {
      const Tile t = layout.tile(i);
      scale.decode_factors(plan, scale_at(q, t.scales), t.cols, scratch.factors.data());
      for (int64_t row = 0; row < t.rows; ++row)
        kernels.decode(codec, codes + t.codes + row * layout.code_row_bytes(), t.cols, {scratch.factors.data(), 0}, d,
                       out + t.begin + row * layout.stride());
    }
  });
}

}  // namespace

void ops::quantize(const NodeCall& call, const Context& context) {
  const Tensor& q = call.out[0];
  if (is_identity_f32(q.type.spec.element))
    return copy_canonical(in_data<float>(call.in[0]), element_count(q.type.shape), out_data<float>(q), context);
  Quantizer(call, context).run();
}

void ops::dequantize(const NodeCall& call, const Context& context) {
  const Tensor& q = call.in[0];
  float* out = out_data<float>(call.out[0]);
  if (is_identity_f32(q.type.spec.element)) {
    const int64_t n = element_count(q.type.shape);
    if (n > 0) std::memcpy(out, in_data<float>(q), static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const ScalePlan plan = stored_scale_plan(q.type.spec, q);
  if (TileLayout::fits(q.type)) return decode_tiles(q, plan, out, context);
  decode_runs(q, RunLayout(q.type), plan, out, context);
}

}  // namespace fp4sim::simd
