// quantize of the simd backend: cuts tensors into runs and tiles and calls the level's kernels.
#include <bit>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/block_amax.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_layout.h"
#include "reference/simd/quant_plan.h"
#include "reference/simd/scale_choice.h"

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
        given_amax_(call.in.size() == 3 ? in_data<float>(call.in[2]) : nullptr),
        codes_(out_data<uint8_t>(q_)),
        scale_(pick_scale_kernels(context.level)) {
    if (!is_stochastic(spec_.rounding)) return;
    random_ = random_bits(call, 1);
    first_ = call.node.attrs.integer("row_offset") * matrix_view(q_.type.shape).cols;
  }

  void run() {
    const bool empty = element_count(q_.type.shape) == 0;
    const ElementFormat format = spec_.element.bias_auto ? store_bias() : spec_.element;
    // Shared scales and a choice between two of them need every block's amax first. Otherwise a block is read once, and
    // again from the cache; before that, all of them for the tensor's amax.
    const bool tiles = TileLayout::fits(q_.type);
    const bool shares = tiles && TileLayout(q_.type).shares_scales();
    const bool choose = chooses_scale(spec_.rule);
    const bool whole = spec_.granularity == Granularity::tensor;
    const bool grid = shares || choose || whole || empty || (has_tensor_scale(spec_) && tiles);
    if (!is_unscaled(spec_) && grid) amax_grid(empty);
    const ScalePlan plan = make_scale_plan(spec_, tensor_amax());
    if (has_tensor_scale(spec_)) *out_data<float>(q_, 2) = plan.d;
    make_job(format, plan);
    if (choose && !empty)
      store_chosen_scales(q_, x_, plan, amax_, random_, first_, context_);
    else if (!amax_.empty())
      store_scales(plan);
    if (empty) return;
    if (tiles) return encode_tiles(plan);
    encode_runs(plan);
  }

 private:
  ElementFormat store_bias() {
    const int64_t n = element_count(q_.type.shape);
    const float amax = given_amax_ != nullptr ? *given_amax_ : finite_element_amax(x_, n, context_);
    const int32_t bias = automatic_bias(spec_.element, amax);
    *out_data<int32_t>(q_, 1) = bias;
    return with_bias(spec_.element, bias);
  }

  /// A of §4.2, given or computed; 0 for rules without a tensor scale.
  float tensor_amax() const {
    if (given_amax_ != nullptr) return *given_amax_;
    if (!has_tensor_scale(spec_) || !amax_.empty()) return finite_amax(amax_);
    return finite_block_amax(x_, q_.type, context_);
  }

  /// Blocks without elements (row, col and tensor granularity of empty tensors) have amax 0.
  void amax_grid(bool empty) {
    amax_ = empty ? std::vector<uint32_t>(static_cast<size_t>(scale_grid(q_.type).count()))
                  : block_amax(x_, q_.type, context_);
    if (given_amax_ != nullptr && spec_.granularity == Granularity::tensor && amax_[0] < kF32Inf)
      amax_[0] = std::bit_cast<uint32_t>(*given_amax_);
  }

  void make_job(const ElementFormat& format, const ScalePlan& plan) {
    narrow_ = encodes_narrow(spec_, plan);
    job_ = {make_codec(spec_, format), scaling_of(spec_), random_, make_value_plan(spec_, format, plan)};
    encode_ = narrow_ ? pick_encode_kernels(context_.level).encode : pick_wide_kernels(context_.level).encode;
  }

  void store_scales(const ScalePlan& plan) {
    const auto n = static_cast<int64_t>(amax_.size());
    parallel_for(context_, n, 1 << 13, [&](int64_t begin, int64_t end) {
      scale_.store_scales(plan, amax_.data() + begin, end - begin, scale_at(q_, begin));
    });
  }

  void encode_runs(const ScalePlan& plan) {
    const RunLayout layout(q_.type);
    const auto quantize_blocks = pick_block_kernels(context_.level).quantize;
    const bool fast = !is_unscaled(spec_) && amax_.empty() && narrow_;
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      BlockScratch scratch(layout.most_blocks());
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        int64_t at = 0;
        if (fast)
          at = quantize_blocks(plan, job_, x_ + r.begin, r.n, layout.block(), scale_at(q_, r.scales), codes_ + r.codes);
        for (; at < r.n; at += layout.piece()) encode_run(layout, layout.piece_of(r, at), plan, scratch);
      }
    });
  }

  void encode_run(const RunLayout& layout, const Run& r, const ScalePlan& plan, BlockScratch& scratch) {
    fetch(r.begin + r.n);
    const bool scaled = !is_unscaled(spec_);
    if (scaled && amax_.empty()) {
      scale_.amax_blocks(x_ + r.begin, r.n, layout.block(), scratch.amax.data());
      scale_.store_scales(plan, scratch.amax.data(), layout.blocks(r), scale_at(q_, r.scales));
    }
    if (scaled) scale_.encode_factors(plan, scale_at(q_, r.scales), layout.blocks(r), scratch.factors.data());
    encode_(job_, x_ + r.begin, r.n, {scaled ? scratch.factors.data() : nullptr, layout.block()}, first_ + r.begin,
            codes_ + r.codes);
  }

  /// Asks for the start of what follows a piece, so that memory works while the piece is encoded.
  void fetch(int64_t begin) const {
    constexpr int64_t kAhead = 512, kLine = 16;  // elements
    const int64_t end = std::min(begin + kAhead, element_count(q_.type.shape));
    for (int64_t i = begin; i < end; i += kLine) __builtin_prefetch(x_ + i);
  }

  void encode_tiles(const ScalePlan& plan) {
    const TileLayout layout(q_.type);
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      BlockScratch scratch(TileLayout::kColumns);
      for (int64_t i = begin; i < end; ++i) encode_tile(layout, layout.tile(i), plan, scratch);
    });
  }

  void encode_tile(const TileLayout& layout, const Tile& t, const ScalePlan& plan, BlockScratch& scratch) {
    if (amax_.empty()) {
      tile_amax(scale_, layout, t, x_, scratch.amax.data());
      scale_.store_scales(plan, scratch.amax.data(), layout.scales(t), scale_at(q_, t.scales));
    }
    scale_.encode_factors(plan, scale_at(q_, t.scales), layout.scales(t), scratch.factors.data());
    for (int64_t row = 0; row < t.rows; ++row) {
      const int64_t at = t.begin + row * layout.stride();
      encode_(job_, x_ + at, t.cols, {scratch.factors.data(), layout.factor_block()}, first_ + at,
              codes_ + t.codes + row * layout.code_row_bytes());
    }
  }

  const Context& context_;
  const Tensor& q_;
  const QuantSpec& spec_;
  const float* x_;
  const float* given_amax_;  // the amax input, or nullptr
  uint8_t* codes_;
  const ScaleKernels& scale_;
  RandomBits random_{};
  int64_t first_ = 0;           // index of x[0] in the logical tensor
  std::vector<uint32_t> amax_;  // of every block; empty where blocks are read one after the other
  EncodeJob job_{};
  bool narrow_ = false;  // encode_ is EncodeKernels::encode
  decltype(EncodeKernels::encode) encode_ = nullptr;
};

void copy_canonical(const float* x, int64_t n, float* y, const Context& context) {
  const EncodeKernels& kernels = pick_encode_kernels(context.level);
  parallel_for(context, n, 1 << 14,
               [&](int64_t begin, int64_t end) { kernels.copy_canonical(x + begin, end - begin, y + begin); });
}

}  // namespace

void ops::quantize(const NodeCall& call, const Context& context) {
  const Tensor& q = call.out[0];
  if (is_identity_f32(q.type.spec.element) && !q.type.spec.sr34)
    return copy_canonical(in_data<float>(call.in[0]), element_count(q.type.shape), out_data<float>(q), context);
  Quantizer(call, context).run();
}

}  // namespace fp4sim::simd
