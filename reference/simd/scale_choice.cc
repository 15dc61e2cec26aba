#include "reference/simd/scale_choice.h"

#include "reference/contract/host_backend.h"
#include "reference/simd/quant_layout.h"
#include "reference/simd/quant_plan.h"

namespace fp4sim::simd {
namespace {

/// Candidate scales of some neighbouring blocks, their factors and error sums.
struct Candidate {
  explicit Candidate(int64_t blocks)
      : bytes(static_cast<size_t>(blocks)), encode(bytes.size()), decode(bytes.size()), sums(bytes.size()) {}
  std::vector<uint8_t> bytes;
  std::vector<float> encode, decode;
  std::vector<double> sums;
};

class ScaleChoice {
 public:
  ScaleChoice(const Tensor& q, const float* x, const ScalePlan& plan, const std::vector<uint32_t>& amax,
              const RandomBits& random, int64_t first, const Context& context)
      : q_(q),
        x_(x),
        plan_(plan),
        amax_(amax),
        first_(first),
        context_(context),
        values_(q.type.spec.element),
        scale_(pick_scale_kernels(context.level)),
        wide_(pick_wide_kernels(context.level)) {
    const QuantSpec& spec = q.type.spec;
    job_ = {{make_codec(spec), Scaling::none, random, make_value_plan(spec, spec.element, plan)}, spec.rule, plan.amax};
    job_.encode.codec.values = values_.values;
    if (spec.rule == ScaleRule::opt && is_stochastic(spec.rounding)) job_.encode.codec.rounding = Rounding::rne;
  }

  void run() const {
    if (TileLayout::fits(q_.type)) return run_tiles(TileLayout(q_.type));
    const RunLayout layout(q_.type);
    if (layout.block() == kOneBlock) return run_tensor(layout);
    parallel_for(context_, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      Candidate one(layout.most_blocks()), two(layout.most_blocks());
      for (int64_t i = begin; i < end; ++i) {
        const Run r = layout.run(i);
        begin_blocks(r.scales, layout.blocks(r), one, two);
        add_errors(r.begin, r.n, layout.block(), one, two);
        store(r.scales, layout.blocks(r), one, two);
      }
    });
  }

 private:
  /// One block: its error is a single chain over all runs.
  void run_tensor(const RunLayout& layout) const {
    Candidate one(1), two(1);
    begin_blocks(0, 1, one, two);
    for (int64_t i = 0; i < layout.count(); ++i) {
      const Run r = layout.run(i);
      add_errors(r.begin, r.n, kOneBlock, one, two);
    }
    store(0, 1, one, two);
  }

  void run_tiles(const TileLayout& layout) const {
    parallel_for(context_, layout.whole_count(), layout.grain(), [&](int64_t begin, int64_t end) {
      Candidate one(TileLayout::kColumns), two(TileLayout::kColumns);
      for (int64_t i = begin; i < end; ++i) {
        const Tile t = layout.whole_tile(i);
        begin_blocks(t.scales, layout.scales(t), one, two);
        for (int64_t row = 0; row < t.rows; ++row)
          add_errors(t.begin + row * layout.stride(), t.cols, layout.factor_block(), one, two);
        store(t.scales, layout.scales(t), one, two);
      }
    });
  }

  void begin_blocks(int64_t first, int64_t n, Candidate& one, Candidate& two) const {
    scale_.store_candidates(plan_, amax_.data() + first, n, one.bytes.data(), two.bytes.data());
    for (Candidate* c : {&one, &two}) {
      scale_.encode_factors(plan_, c->bytes.data(), n, c->encode.data());
      scale_.decode_factors(plan_, c->bytes.data(), n, c->decode.data());
      c->sums.assign(c->sums.size(), 0.0);
    }
  }

  void add_errors(int64_t at, int64_t n, int64_t block, Candidate& one, Candidate& two) const {
    for (Candidate* c : {&one, &two})
      wide_.add_errors(job_, x_ + at, n, {c->encode.data(), block}, {c->decode.data(), block}, first_ + at,
                       c->sums.data());
  }

  void store(int64_t first, int64_t n, const Candidate& one, const Candidate& two) const {
    auto* bytes = out_data<uint8_t>(q_, 1) + first;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      bytes[i] = two.sums[i] < one.sums[i] ? two.bytes[i] : one.bytes[i];
  }

  const Tensor& q_;
  const float* x_;
  const ScalePlan& plan_;
  const std::vector<uint32_t>& amax_;
  int64_t first_;
  const Context& context_;
  CodeValues values_;
  const ScaleKernels& scale_;
  const WideKernels& wide_;
  ErrorJob job_{};
};

}  // namespace

bool chooses_scale(ScaleRule rule) {
  return rule == ScaleRule::opt || rule == ScaleRule::four_over_six_mse || rule == ScaleRule::four_over_six_mae;
}

void store_chosen_scales(const Tensor& q, const float* x, const ScalePlan& plan, const std::vector<uint32_t>& amax,
                         const RandomBits& random, int64_t first, const Context& context) {
  ScaleChoice(q, x, plan, amax, random, first, context).run();
}

}  // namespace fp4sim::simd
