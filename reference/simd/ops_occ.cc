// occ_split and add_residual of the simd backend (numerics.md §6). Two passes over the vectors along the contraction
// axis: bounds and counts, then, from the counts' prefix sums, the clamped values and the entries.
#include <cstring>
#include <limits>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/simd/kernels_occ.h"
#include "reference/simd/kernels_quantize.h"
#include "reference/simd/ops.h"
#include "reference/simd/quant_plan.h"

namespace fp4sim::simd {
namespace {

constexpr int64_t kGatherColumns = 16;  // columns copied to contiguous vectors together: one cache line a row
constexpr int64_t kClampColumns = 256;

class Splitter {
 public:
  Splitter(const NodeCall& call, const Context& context)
      : context_(context),
        csr_(call.out[1]),
        occ_(csr_.type.spec.occ),
        view_(vector_view(csr_.type.shape, csr_.type.axis)),
        x_(in_data<float>(call.in[0])),
        yc_(out_data<float>(call.out[0])),
        kernels_(pick_occ_kernels(context.level)),
        lower_(vectors(), -std::numeric_limits<float>::infinity()),
        upper_(vectors(), std::numeric_limits<float>::infinity()) {}

  void run() {
    auto* row_ptr = out_data<int64_t>(csr_, 0);
    std::memset(row_ptr, 0, (vectors() + 1) * sizeof(int64_t));
    if (occ_.per_tensor) bound_tensor();
    for_each_vector([&](int64_t v, const float* values, std::vector<int32_t>& keys) {
      if (!occ_.per_tensor) bound_vector(v, values, keys);
      if (has_entries()) row_ptr[v + 1] = kernels_.count_outside(values, view_.length, lower_[at(v)], upper_[at(v)]);
    });
    for (int64_t v = 0; v < view_.vectors; ++v) row_ptr[v + 1] += row_ptr[v];
    const int64_t total = row_ptr[view_.vectors];
    // Residuals of a narrow format are collected in binary32 first.
    if (occ_.residual != ResidualFormat::fp32) staged_.resize(static_cast<size_t>(total));
    residuals_ = occ_.residual == ResidualFormat::fp32 ? out_data<float>(csr_, 2) : staged_.data();
    if (view_.stride == 1)
      fill_rows(row_ptr);
    else
      fill_columns(row_ptr);
    if (occ_.residual == ResidualFormat::bf16) encode_bf16(total);
    if (occ_.residual == ResidualFormat::e4m3) encode_e4m3(total);
  }

 private:
  static size_t at(int64_t v) { return static_cast<size_t>(v); }
  size_t vectors() const { return static_cast<size_t>(view_.vectors); }
  bool has_entries() const { return occ_.residual != ResidualFormat::none; }
  int64_t grain() const { return std::max<int64_t>(1, 8192 / std::max<int64_t>(view_.length, 1)); }

  /// Bounds of `n` values; left infinite where a value is not finite.
  void bound(const float* values, int64_t n, std::vector<int32_t>& keys, float& lower, float& upper) const {
    if (n == 0) return;
    keys.resize(static_cast<size_t>(2 * n));
    if (!kernels_.order_keys(values, n, keys.data())) return;
    const QuantileIndices q = quantile_indices(occ_.alpha, n);
    float bounds[2];
    kernels_.select_two(keys.data(), n, q.lower, q.upper, keys.data() + n, bounds);
    lower = bounds[0];
    upper = bounds[1];
  }

  void bound_vector(int64_t v, const float* values, std::vector<int32_t>& keys) {
    bound(values, view_.length, keys, lower_[at(v)], upper_[at(v)]);
  }

  void bound_tensor() {
    std::vector<int32_t> keys;
    float lower = -std::numeric_limits<float>::infinity(), upper = -lower;
    bound(x_, view_.vectors * view_.length, keys, lower, upper);
    std::fill(lower_.begin(), lower_.end(), lower);
    std::fill(upper_.begin(), upper_.end(), upper);
  }

  /// body(v, contiguous values, scratch) for every vector, columns gathered a few at a time.
  template <class Body>
  void for_each_vector(const Body& body) {
    if (view_.stride == 1) {
      parallel_for(context_, view_.vectors, grain(), [&](int64_t begin, int64_t end) {
        std::vector<int32_t> keys;
        for (int64_t v = begin; v < end; ++v) body(v, x_ + v * view_.length, keys);
      });
      return;
    }
    const int64_t cols = view_.stride, tiles = (cols + kGatherColumns - 1) / kGatherColumns;
    const int64_t matrices = cols > 0 ? view_.vectors / cols : 0;
    parallel_for(context_, matrices * tiles, 1, [&](int64_t begin, int64_t end) {
      std::vector<int32_t> keys;
      const int64_t apart = view_.length + kGatherColumns;  // not a power of two, which would share cache sets
      std::vector<float> gathered(static_cast<size_t>(kGatherColumns * apart));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % tiles * kGatherColumns, count = std::min(kGatherColumns, cols - first);
        const float* tile = x_ + i / tiles * cols * view_.length + first;
        for (int64_t k = 0; k < view_.length; ++k)
          for (int64_t c = 0; c < count; ++c) gathered[at(c * apart + k)] = tile[k * cols + c];
        for (int64_t c = 0; c < count; ++c) body(i / tiles * cols + first + c, gathered.data() + c * apart, keys);
      }
    });
  }

  void fill_rows(const int64_t* row_ptr) {
    auto* col = out_data<int32_t>(csr_, 1);
    parallel_for(context_, view_.vectors, grain(), [&](int64_t begin, int64_t end) {
      std::vector<int32_t> outside(static_cast<size_t>(view_.length));
      for (int64_t v = begin; v < end; ++v) {
        const float* row = x_ + v * view_.length;
        float* clamped = yc_ + v * view_.length;
        const int64_t found =
            kernels_.clamp(row, view_.length, &lower_[at(v)], &upper_[at(v)], 0, clamped, outside.data());
        if (!has_entries()) continue;
        for (int64_t e = 0; e < found; ++e) {
          const int32_t k = outside[at(e)];
          col[row_ptr[v] + e] = k;
          residuals_[row_ptr[v] + e] = row[k] - clamped[k];
        }
      }
    });
  }

  void fill_columns(const int64_t* row_ptr) {
    auto* col = out_data<int32_t>(csr_, 1);
    const int64_t cols = view_.stride, tiles = (cols + kClampColumns - 1) / kClampColumns;
    const int64_t matrices = cols > 0 ? view_.vectors / cols : 0;
    parallel_for(context_, matrices * tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % tiles * kClampColumns, count = std::min(kClampColumns, cols - column);
        const int64_t first = i / tiles * cols + column;  // vector of the tile's first column
        const int64_t corner = i / tiles * cols * view_.length + column;
        int64_t next[kClampColumns];
        int32_t outside[kClampColumns];
        for (int64_t c = 0; c < count; ++c) next[c] = row_ptr[first + c];
        for (int64_t k = 0; k < view_.length; ++k) {
          const float* row = x_ + corner + k * cols;
          float* clamped = yc_ + corner + k * cols;
          const int64_t found = kernels_.clamp(row, count, &lower_[at(first)], &upper_[at(first)], 1, clamped, outside);
          if (!has_entries()) continue;
          for (int64_t e = 0; e < found; ++e) {
            const int32_t c = outside[e];
            col[next[c]] = static_cast<int32_t>(k);
            residuals_[next[c]++] = row[c] - clamped[c];
          }
        }
      }
    });
  }

  void encode_residuals(const EncodeJob& job, const float* factor, int64_t total) {
    const EncodeKernels& kernels = pick_encode_kernels(context_.level);
    auto* values = out_data<uint8_t>(csr_, 2);
    parallel_for(context_, total, 8192, [&](int64_t begin, int64_t end) {
      kernels.encode(job, staged_.data() + begin, end - begin, {factor, kOneBlock}, begin,
                     values + begin * job.codec.bits / 8);
    });
  }

  void encode_bf16(int64_t total) {
    encode_residuals({make_codec(kBf16, Rounding::rne, true, false), Scaling::none, {}}, nullptr, total);
  }

  /// One power-of-two scale by the rule of `e4m3:tensor:e8m0/rceil`; an infinite residual makes it NaN and the codes
  /// +0.
  void encode_e4m3(int64_t total) {
    QuantSpec spec;
    spec.element = kE4m3;
    spec.granularity = Granularity::tensor;
    spec.scale = ScaleFormat::e8m0;
    spec.rule = ScaleRule::rceil;
    const ScaleKernels& kernels = pick_scale_kernels(context_.level);
    const ScalePlan plan = make_scale_plan(spec, 0.0f);
    uint32_t amax = 0;
    if (total > 0) kernels.amax_blocks(staged_.data(), total, total, &amax);
    float factor = 0;
    kernels.store_scales(plan, &amax, 1, out_data<uint8_t>(csr_, 3));
    kernels.encode_factors(plan, out_data<uint8_t>(csr_, 3), 1, &factor);
    encode_residuals({make_codec(spec), scaling_of(spec), {}}, &factor, total);
  }

  const Context& context_;
  const Tensor& csr_;
  const OccOption& occ_;
  VectorView view_;
  const float* x_;
  float* yc_;
  const OccKernels& kernels_;
  std::vector<float> lower_, upper_;  // of every vector
  std::vector<float> staged_;
  float* residuals_ = nullptr;
};

/// ΔY of all entries in binary32; `staging` holds them for the narrow formats.
const float* residual_values(const Tensor& csr, int64_t total, std::vector<float>& staging, const Context& context) {
  const ResidualFormat format = csr.type.spec.occ.residual;
  if (format == ResidualFormat::fp32 || total == 0) return in_data<float>(csr, 2);
  staging.resize(static_cast<size_t>(total));
  const DecodeKernels& kernels = pick_decode_kernels(context.level);
  const auto* codes = in_data<uint8_t>(csr, 2);
  if (format == ResidualFormat::bf16) {
    const Codec codec = make_codec(kBf16, Rounding::rne, true, false);
    kernels.decode(codec, codes, total, {nullptr, kOneBlock}, nullptr, staging.data());
    return staging.data();
  }
  ScalePlan plan{};
  plan.rule = ScaleRule::rceil;
  float factor = 0;
  pick_scale_kernels(context.level).decode_factors(plan, in_data<uint8_t>(csr, 3), 1, &factor);
  const Codec codec = make_codec(kE4m3, Rounding::rne, false, true);
  kernels.decode(codec, codes, total, {&factor, kOneBlock}, nullptr, staging.data());
  return staging.data();
}

}  // namespace

void ops::occ_split(const NodeCall& call, const Context& context) { Splitter(call, context).run(); }

void ops::add_residual(const NodeCall& call, const Context& context) {
  const float* x = in_data<float>(call.in[0]);
  const Tensor& csr = call.in[1];
  float* y = out_data<float>(call.out[0]);
  const VectorView view = vector_view(csr.type.shape, csr.type.axis);
  const auto* row_ptr = in_data<int64_t>(csr, 0);
  const auto* col = in_data<int32_t>(csr, 1);
  std::vector<float> staging;
  const float* residuals = residual_values(csr, row_ptr[view.vectors], staging, context);
  parallel_for(context, view.vectors * view.length, 1 << 14, [&](int64_t begin, int64_t end) {
    std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(float));
  });
  parallel_for(context, view.vectors, 256, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; ++v)
      for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
        const int64_t i = view.begin(v) + col[e] * view.stride;
        y[i] = x[i] + residuals[e];
      }
  });
}

}  // namespace fp4sim::simd
