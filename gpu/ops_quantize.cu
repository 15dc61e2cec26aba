// quantize (numerics.md §4): block maxima, the tensor's scales, the blocks' scales, then the codes. Steps that a spec
// has no use for are left out; common formats take the fused kernels of quantize_fast.h.
#include "gpu/block_maxima.h"
#include "gpu/dequantize.h"
#include "gpu/ops.h"
#include "gpu/philox.cuh"
#include "gpu/quantize_fast.h"
#include "gpu/scale_choice.cuh"
#include "gpu/short_codec.cuh"
#include "gpu/warp.cuh"

namespace fp4sim::gpu {
namespace {

/// S and d from the tensor amax, or from the one that was given; `stored` is the packed value's part.
__global__ void write_tensor_scales(const uint32_t* amax, const float* given, Quantizer q, TensorScales* scales,
                                    float* stored) {
  *scales = tensor_scales(given != nullptr ? *given : float_of(*amax), q);
  *stored = scales->decode;
}

/// Scales of the blocks, one thread a block. `given`: the amax of the one block of granularity tensor. `tensor` is
/// nullptr for scales without a tensor scale.
__global__ void write_scales(const float* x, const uint32_t* maxima, const float* given, const TensorScales* tensor,
                             Quantizer q, Layout l, RandomSource source, void* scales) {
  const int64_t block = thread_number();
  if (block >= l.blocks) return;
  const bool finite = maxima[block] < kF32Inf;
  const uint32_t amax = given != nullptr ? magnitude_bits(*given) : maxima[block];
  if (q.scale == ScaleFormat::fp32) {
    static_cast<float*>(scales)[block] = finite ? fp32_scale(amax, q) : canonical_nan();
    return;
  }
  const TensorScales t = tensor != nullptr ? *tensor : TensorScales{};
  static_cast<uint8_t*>(scales)[block] =
      finite ? chosen_scale(x, l, block, scale_candidates(amax, t, q), t, q, source) : nonfinite_scale(q);
}

/// The bias of `bauto` (§2): the largest whose max_normal ≥ amax, in the format's range; its own for amax = 0.
__global__ void write_bias(const uint32_t* maximum, const float* given, ElementFormat f, int32_t* stored) {
  const uint32_t amax = given != nullptr ? magnitude_bits(*given) : *maximum;
  *stored = f.bias;
  if (amax == 0) return;
  // max_normal = significand·2^(emax − M) with emax = top field − bias: rceil_exponent counts how far emax must rise.
  const BiasRange range = user_bias_range(f.exponent_bits, f.mantissa_bits);
  const int bias = f.bias - rceil_exponent(amax, f);
  *stored = bias < range.lowest ? range.lowest : bias > range.highest ? range.highest : bias;
}

/// The short codec where binary32 holds y well enough: not for scales of profile exact, whose y has 53 bits, nor for
/// sr34, whose y has 26. No bits: there is none. Host only.
ShortCodec short_codec_for(const QuantSpec& spec, const Quantizer& q) {
  if (q.rule == ScaleRule::exact || q.sr34 || !short_codec_takes(q.codec())) return {};
  const bool exact = q.scale == ScaleFormat::none && q.rounding == Rounding::rne;
  const bool scaled = q.scale != ScaleFormat::none && rounds_subnormals_to_zero(spec.element);
  return exact || scaled ? short_codec_of(q.codec()) : ShortCodec{};
}

/// Codes of eight neighbours of a row: whole bytes (§4.4), one thread each.
__global__ void write_codes(const float* x, PackedView q, const TensorScales* tensor, RandomSource source,
                            ShortCodec short_codec, uint8_t* codes) {
  const Layout& l = q.layout;
  const int64_t item = thread_number(), row = quotient(item, l.groups), group = item - row * l.groups;
  if (row >= l.rows) return;
  const Codec codec{q.element(), q.quantizer.rounding, q.quantizer.ieee};
  const int bits = codec.format.bits;
  const TensorScales t = tensor != nullptr ? *tensor : TensorScales{};
  const int64_t first = group * kGroupCodes, last = least(first + kGroupCodes, l.cols);
  uint8_t* bytes = codes + row * l.row_bytes + group * bits;
  RandomBits random(source);
  CodeGroup string;
  int64_t block = -1;
  float scale = 1;
  for (int64_t col = first; col < last; ++col) {
    const int64_t its_block = l.block_of(row, col);
    if (its_block != block) scale = q.scale_at(its_block);
    block = its_block;
    const int64_t i = row * l.cols + col;
    const bool nonfinite = magnitude_bits(scale) > kF32Inf;  // codes +0
    uint32_t code = 0;
    if (!nonfinite) {
      const double y = scaled_value(x[i], scale, t, q.quantizer);
      code = short_codec.bits == 0              ? encode(y, codec, random(i))
             : codec.rounding == Rounding::sr32 ? encode_short_sr32(static_cast<float>(y), random(i), short_codec)
                                                : encode_short_rne(static_cast<float>(y), short_codec);
    }
    const int place = static_cast<int>(col - first);
    if (bits <= 8) {
      string.put(place, bits, code);
    } else {
      store_group(bytes + place * (bits / 8), bits / 8, CodeGroup{code});
    }
  }
  if (bits <= 8) store_group(bytes, static_cast<int>(least(bits, l.row_bytes - group * bits)), string);
}

/// One call of quantize, step by step.
class Quantization {
 public:
  Quantization(const NodeCall& call, Context& context)
      : call_(call),
        context_(context),
        spec_(call.out[0].type.spec),
        x_(in_data<float>(call, 0)),
        given_(call.in.size() == 3 ? in_data<float>(call, 2) : nullptr),
        q_(view_of(call.out[0])),
        source_(random_source_of(call)) {}

  void run() {
    const ValueType& type = call_.out[0].type;
    if (q_.layout.elements() == 0) {
      if (!is_unscaled(spec_)) scales();
      if (spec_.element.bias_auto) bias();
    } else if (spec_.element.bias_auto) {
      bias();
    } else if (fused_blocks_take(type, source_.first)) {
      return fused_blocks(fused_call(), context_);
    } else if (fused_columns_take(type, source_.first)) {
      return fused_columns(fused_call(), context_);
    } else if (fused_vectors_take(type)) {
      return fused_vectors({x_, q_, source_, {}, nullptr}, context_);
    } else if (fused_tensor_takes(type)) {
      return fused_tensor({x_, q_, source_, {}, given_}, copies(), context_);
    } else if (fused_wide_take(type)) {
      return fused_wide({x_, q_, source_, {}, nullptr}, copies(), context_);
    } else if (!is_unscaled(spec_)) {
      scales();
    }
    context_.launch(write_codes, context_.per_item(q_.layout.rows * q_.layout.groups), x_, q_, tensor_, source_,
                    short_codec_for(spec_, q_.quantizer), out_data<uint8_t>(call_));
  }

 private:
  const uint32_t* maxima() {
    auto* maxima = context_.scratch<uint32_t>(q_.layout.blocks);
    block_maxima(x_, q_.layout, maxima, context_);
    return maxima;
  }

  const uint32_t* amax_of(const uint32_t* maxima) {
    auto* amax = context_.scratch<uint32_t>(1);
    finite_maximum(maxima, q_.layout.blocks, amax, context_);
    return amax;
  }

  void scales() {
    const uint32_t* block_maximum = maxima();
    if (has_tensor_scale(spec_)) tensor(amax_of(block_maximum));
    const float* block_amax = spec_.granularity == Granularity::tensor ? given_ : nullptr;
    context_.launch(write_scales, context_.per_item(q_.layout.blocks), x_, block_maximum, block_amax, tensor_,
                    q_.quantizer, q_.layout, source_, const_cast<void*>(q_.scales));
  }

  /// The call of a fused kernel of block scales, after A has been found where the spec has a tensor scale.
  QuantizeCall fused_call() {
    if (!has_tensor_scale(spec_) || given_ != nullptr) return {x_, q_, source_, {}, given_};
    return {x_, q_, source_, finite_amax(x_, q_.layout, context_), nullptr};
  }

  PackedCopies copies() const {
    return {{out_data<uint8_t>(call_), nullptr}, {static_cast<float*>(const_cast<void*>(q_.scales)), nullptr}};
  }

  void tensor(const uint32_t* amax) {
    tensor_ = context_.scratch<TensorScales>(1);
    context_.launch(write_tensor_scales, Context::per_block(1, 1), amax, given_, q_.quantizer, tensor_,
                    const_cast<float*>(q_.tensor_scale));
  }

  void bias() {
    auto* amax = context_.scratch<uint32_t>(1);
    scaled_amax(x_, q_, amax, context_);
    context_.launch(write_bias, Context::per_block(1, 1), amax, given_, spec_.element, const_cast<int32_t*>(q_.bias));
  }

  const NodeCall& call_;
  Context& context_;
  const QuantSpec& spec_;
  const float* x_;
  const float* given_;
  PackedView q_;
  RandomSource source_;
  TensorScales* tensor_ = nullptr;
};

/// The value of eight neighbours of a row, fl(fl(code·scale)·d) (§4.1–4.3).
__global__ void decode_groups(PackedView q, float* x) {
  const Layout& l = q.layout;
  const int64_t item = thread_number(), row = quotient(item, l.groups), group = item - row * l.groups;
  if (row >= l.rows) return;
  const ElementFormat f = q.element();
  const int64_t first = group * kGroupCodes, last = least(first + kGroupCodes, l.cols);
  for (int64_t col = first; col < last; ++col) {
    float value = decode(load_code(q.row(row), col, f.bits), f);
    if (q.scales != nullptr) value = value * q.scale_at(l.block_of(row, col));
    if (q.tensor_scale != nullptr) value = value * *q.tensor_scale;
    x[row * l.cols + col] = value;
  }
}

}  // namespace

uint64_t first_element_of(const NodeCall& call) {
  if (!is_stochastic(call.out[0].type.spec.rounding)) return 0;
  return static_cast<uint64_t>(call.node.attrs.integer("row_offset") * matrix_view(call.in[0].type.shape).cols);
}

RandomSource random_source_of(const NodeCall& call) {
  if (!is_stochastic(call.out[0].type.spec.rounding)) return {};
  return {in_data<StepInfo>(call, 1), static_cast<uint32_t>(call.node.attrs.integer("stream")), first_element_of(call)};
}

void decode_packed(const Tensor& q, float* x, Context& context) {
  const PackedView view = view_of(q);
  if (fused_dequantize_takes(q.type)) return fused_dequantize(view, x, context);
  context.launch(decode_groups, context.per_item(view.layout.rows * view.layout.groups), view, x);
}

void ops::quantize(const NodeCall& call, Context& context) { Quantization(call, context).run(); }

void ops::dequantize(const NodeCall& call, Context& context) {
  decode_packed(call.in[0], out_data<float>(call), context);
}

}  // namespace fp4sim::gpu
