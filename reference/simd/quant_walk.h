// Every element of a packed tensor with the factors of its block, in pieces: the frame of dequantize, estimator_grad
// and soft_forward.
#pragma once

#include <cstddef>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/quant_layout.h"

namespace fp4sim::simd {

/// Neighbouring elements of one row of the tensor (or of joined rows).
struct Segment {
  int64_t begin, n;             // elements
  int64_t codes;                // byte offset of the first code
  BlockFactors encode, decode;  // factors = nullptr where not asked for, and for unscaled specs
};

enum FactorKinds : unsigned { kEncodeFactors = 1, kDecodeFactors = 2 };

/// Factors of some neighbouring stored scales.
class StoredFactors {
 public:
  StoredFactors(const Tensor& q, const ScalePlan& plan, unsigned kinds, int64_t most, Level level)
      : plan_(plan), kinds_(is_unscaled(q.type.spec) ? 0 : kinds), kernels_(pick_scale_kernels(level)) {
    if (kinds_ == 0) return;
    scales_ = in_data<std::byte>(q, 1);
    scale_bytes_ = q.type.spec.scale == ScaleFormat::fp32 ? 4 : 1;
    encode_.resize(static_cast<size_t>(most));
    decode_.resize(static_cast<size_t>(most));
  }
  void load(int64_t first, int64_t n) {
    if (kinds_ == 0) return;
    const std::byte* from = scales_ + first * scale_bytes_;
    if ((kinds_ & kEncodeFactors) != 0) kernels_.encode_factors(plan_, from, n, encode_.data());
    if ((kinds_ & kDecodeFactors) != 0) kernels_.decode_factors(plan_, from, n, decode_.data());
  }
  BlockFactors encode(int64_t block) const {
    return {(kinds_ & kEncodeFactors) != 0 ? encode_.data() : nullptr, block};
  }
  BlockFactors decode(int64_t block) const {
    return {(kinds_ & kDecodeFactors) != 0 ? decode_.data() : nullptr, block};
  }

 private:
  const ScalePlan& plan_;
  unsigned kinds_;
  const ScaleKernels& kernels_;
  const std::byte* scales_ = nullptr;
  int64_t scale_bytes_ = 0;
  std::vector<float> encode_, decode_;
};

/// Calls body(segment) for segments that cover q, on all threads.
template <class Body>
void for_segments(const Tensor& q, const ScalePlan& plan, unsigned kinds, const Context& context, Body body) {
  if (TileLayout::fits(q.type)) {
    const TileLayout layout(q.type);
    parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
      StoredFactors factors(q, plan, kinds, TileLayout::kColumns, context.level);
      const int64_t block = layout.factor_block();
      for (int64_t i = begin; i < end; ++i) {
        const Tile t = layout.tile(i);
        factors.load(t.scales, layout.scales(t));
        for (int64_t row = 0; row < t.rows; ++row)
          body(Segment{t.begin + row * layout.stride(), t.cols, t.codes + row * layout.code_row_bytes(),
                       factors.encode(block), factors.decode(block)});
      }
    });
    return;
  }
  const RunLayout layout(q.type);
  parallel_for(context, layout.count(), layout.grain(), [&](int64_t begin, int64_t end) {
    StoredFactors factors(q, plan, kinds, layout.most_blocks(), context.level);
    for (int64_t i = begin; i < end; ++i) {
      const Run r = layout.run(i);
      factors.load(r.scales, layout.blocks(r));
      body(Segment{r.begin, r.n, r.codes, factors.encode(layout.block()), factors.decode(layout.block())});
    }
  });
}

}  // namespace fp4sim::simd
