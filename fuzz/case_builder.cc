#include "fuzz/case_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fuzz/elements.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

constexpr const char* kSizes[] = {"b", "batch",  "blocks", "classes", "columns", "d",    "groups", "half", "inputs",
                                  "k", "length", "m",      "n",       "repeats", "rows", "s",      "t",    "v"};
constexpr const char* kSpecs[] = {"a_format", "b_format", "spec"};

/// Codes that encode can produce: no NaN or Inf codes but under `ieee`, never the most negative integer.
uint32_t legal_code(const QuantSpec& spec, uint32_t bits) {
  const ElementFormat& f = spec.element;
  const uint32_t sign = 1u << (f.bits - 1);
  const uint32_t code = bits & (sign | (sign - 1));
  if (f.encoding == Encoding::twos_complement) return code == sign ? 0 : code;
  const uint32_t magnitude = code & (sign - 1);
  if (magnitude <= max_normal_code(f)) return code;
  const bool specials = f.specials != Specials::none && (spec.ieee || is_unscaled(spec));
  if (!specials) return code & sign;
  const bool inf = f.specials == Specials::ieee && magnitude == inf_code(f);
  return inf ? code : nan_code(f);  // the canonical NaN has no sign
}

void fill_codes(HostValue& value, Codes codes, Dice& dice) {
  const int64_t row_bytes = code_row_bytes(value.type), cols = matrix_view(value.type.shape).cols;
  if (row_bytes == 0) return;
  const int bits = value.type.spec.element.bits;
  auto* bytes = value.data<uint8_t>();
  const int64_t rows = static_cast<int64_t>(value.parts[0].size()) / row_bytes;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col) {
      const uint32_t code = codes == Codes::any ? dice.bits() : legal_code(value.type.spec, dice.bits());
      for (int64_t k = 0; k < bits; ++k) {
        const int64_t at = col * bits + k;
        bytes[row * row_bytes + at / 8] |= static_cast<uint8_t>((code >> k & 1u) << (at % 8));
      }
    }
}

/// A positive scale near 1, seldom anywhere in the range or NaN.
float draw_scale(Dice& dice) {
  if (dice.one_in(64)) return std::numeric_limits<float>::quiet_NaN();
  const auto span = dice.one_in(4) ? 250 : 12;
  const auto exponent = static_cast<uint32_t>(127 - span / 2 + dice.below(span));
  return std::bit_cast<float>(exponent << 23 | (dice.bits() >> 9));
}

/// A bias of a `bauto` tensor: near the default, sometimes anywhere in its range (numerics.md §2).
int32_t draw_bias(Dice& dice, const ElementFormat& f) {
  const BiasRange range = user_bias_range(f.exponent_bits, f.mantissa_bits);
  const int64_t bias = dice.one_in(4) ? dice.between(range.lowest, range.highest) : dice.between(-10, 10);
  return static_cast<int32_t>(std::clamp<int64_t>(bias, range.lowest, range.highest));
}

uint8_t draw_scale_code(Dice& dice, const QuantSpec& spec) {
  constexpr int64_t kNaN = 255, kOne = 127;
  if (spec.scale == ScaleFormat::e8m0)
    return static_cast<uint8_t>(dice.one_in(8) ? dice.between(0, kNaN) : dice.between(kOne - 8, kOne + 8));
  const ElementFormat f = scale_element(spec);
  return static_cast<uint8_t>(dice.between(0, nan_code(f)));
}

}  // namespace

CaseBuilder::CaseBuilder(const CaseParameters& parameters, Backend& maker)
    : parameters_(parameters), maker_(maker), dice_(parameters.seed, std::string("build/") + op_name(parameters.op)) {
  case_.op = parameters.op;
  case_.name = std::string("fuzz/") + op_name(parameters.op);
  case_.origin = to_string(parameters);
}

std::string CaseBuilder::stream() const { return "input" + std::to_string(case_.inputs.size()); }

void CaseBuilder::f32(const Shape& shape, const char* distribution) {
  HostValue value = zero_value({DType::f32, shape, {}, Axis::last});
  const Distribution& row = find_distribution(distribution != nullptr ? distribution : parameters_.distribution);
  const std::vector<float> data = elements(row, parameters_.seed, stream(), element_count(shape));
  if (!data.empty()) std::memcpy(value.parts[0].data(), data.data(), value.parts[0].size());
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::non_negative(const Shape& shape) {
  f32(shape);
  auto* bits = case_.inputs.back().data<uint32_t>();
  for (int64_t i = 0; i < element_count(shape); ++i) bits[i] &= kF32MagnitudeMask;
}

void CaseBuilder::bf16(const Shape& shape) {
  HostValue value = zero_value({DType::bf16, shape, {}, Axis::last});
  const Distribution& row = find_distribution(parameters_.distribution);
  const std::vector<float> data = elements(row, parameters_.seed, stream(), element_count(shape));
  for (size_t i = 0; i < data.size(); ++i)
    value.data<uint16_t>()[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(data[i]) >> 16);
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::indices(int64_t n, int64_t below) {
  HostValue value = zero_value({DType::i32, {n}, {}, Axis::last});
  for (int64_t i = 0; i < n; ++i) value.data<int32_t>()[i] = static_cast<int32_t>(dice_.below(below));
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::step() {
  constexpr float kClips[] = {1.0f, 0.1f, 0.0f, std::numeric_limits<float>::infinity()};
  constexpr float kScales[] = {1.0f, 1.0f, 8.0f, 1024.0f, 0.25f};
  StepInfo info;
  info.seed = static_cast<uint64_t>(dice_.bits()) << 32 | dice_.bits();
  info.step = dice_.one_in(8) ? dice_.bits() : static_cast<uint32_t>(dice_.below(1000));
  info.skip = dice_.one_in(8);
  info.lr = static_cast<double>(dice_.bits()) * 0x1p-42;
  info.beta1_power = static_cast<double>(dice_.bits()) * 0x1p-32;
  info.beta2_power = static_cast<double>(dice_.bits()) * 0x1p-32;
  info.loss_scale = dice_.pick(kScales);
  info.clip_norm = dice_.pick(kClips);
  HostValue value = zero_value(step_type());
  std::memcpy(value.parts[0].data(), &info, sizeof info);
  case_.inputs.push_back(std::move(value));
}

HostValue CaseBuilder::quantized(const HostValue& x, const std::string& spec, Axis axis) {
  const QuantSpec parsed = parse_quant_spec(spec);
  Case c{Op::quantize, "fuzz/operand", {{"spec", spec}, {"axis", to_string(axis)}}, {x}, {}, {}};
  if (is_stochastic(parsed.rounding)) {
    c.attrs.set("stream", static_cast<int64_t>(stream_of(stream())));
    c.attrs.set("row_offset", int64_t{0});
    StepInfo info;
    info.seed = parameters_.seed;
    HostValue step_value = zero_value(step_type());
    std::memcpy(step_value.parts[0].data(), &info, sizeof info);
    c.inputs.push_back(std::move(step_value));
  }
  return std::move(run_case(maker_, c).front());
}

void CaseBuilder::packed_of(size_t source, const std::string& spec, Axis axis) {
  HostValue value = quantized(case_.inputs[source], spec, axis);
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::tensor_amax(size_t source) {
  const HostValue& x = case_.inputs[source];
  uint32_t amax = 0;
  for (int64_t i = 0; i < element_count(x.type.shape); ++i)
    if (const uint32_t magnitude = x.data<uint32_t>()[i] & kF32MagnitudeMask; magnitude < kF32Inf)
      amax = std::max(amax, magnitude);
  switch (dice_.below(8)) {
    case 0: amax = 0; break;
    case 1: amax = static_cast<uint32_t>(dice_.below(kF32Inf)); break;
    case 2:
    case 3: break;  // the tensor holds the largest element of the whole
    default: amax = static_cast<uint32_t>(std::min<int64_t>(amax + dice_.below(3 << 23), kF32Max)); break;
  }
  HostValue value = zero_value({DType::f32, {}, {}, Axis::last});
  *value.data<uint32_t>() = amax;
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::packed(const Shape& shape, const std::string& spec, Axis axis, Codes codes) {
  const QuantSpec parsed = parse_quant_spec(spec);
  if (codes == Codes::quantized) {
    f32(shape);
    HostValue value = quantized(case_.inputs.back(), spec, axis);
    case_.inputs.back() = std::move(value);
    return;
  }
  HostValue value = zero_value({DType::packed, shape, parsed, axis});
  fill_codes(value, codes, dice_);
  const std::vector<PartLayout> layouts = part_layouts(value.type);
  for (size_t k = 1; k < layouts.size(); ++k) {
    if (layouts[k].dtype == DType::i32) {
      *value.data<int32_t>(k) = draw_bias(dice_, parsed.element);
      continue;
    }
    const bool floats = layouts[k].dtype == DType::f32;
    for (int64_t i = 0; i < layouts[k].bytes / (floats ? 4 : 1); ++i)
      if (floats)
        value.data<float>(k)[i] = draw_scale(dice_);
      else
        value.data<uint8_t>(k)[i] = draw_scale_code(dice_, parsed);
  }
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::csr(const Shape& shape, const std::string& occ_spec, Axis axis) {
  HostValue value = zero_value({DType::csr, shape, parse_quant_spec(occ_spec), axis});
  const VectorView v = vector_view(shape, axis);
  const bool whole = value.type.spec.occ.per_tensor;
  const int64_t capacity = csr_capacity(value.type);
  int64_t entries = 0;
  for (int64_t row = 0; row < v.vectors; ++row) {
    int64_t left = whole ? capacity - entries : capacity / v.vectors;
    if (whole && row + 1 < v.vectors) left = dice_.below(left + 1);
    left = std::min(left, v.length);
    if (!dice_.one_in(4)) left = dice_.below(left + 1);
    for (int64_t k = 0; k < v.length && left > 0; ++k) {
      if (dice_.below(v.length - k) >= left) continue;  // chooses `left` of the remaining columns, ascending
      value.data<int32_t>(1)[entries++] = static_cast<int32_t>(k);
      --left;
    }
    value.data<int64_t>(0)[row + 1] = entries;
  }
  const Distribution& row = find_distribution(parameters_.distribution);
  const std::vector<float> data = elements(row, parameters_.seed, stream(), entries);
  for (int64_t i = 0; i < entries; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(data[static_cast<size_t>(i)]);
    switch (value.type.spec.occ.residual) {
      case ResidualFormat::none: break;
      case ResidualFormat::fp32: value.data<uint32_t>(2)[i] = bits; break;
      case ResidualFormat::bf16: value.data<uint16_t>(2)[i] = static_cast<uint16_t>(bits >> 16); break;
      case ResidualFormat::e4m3: {
        const uint8_t code = static_cast<uint8_t>(dice_.bits());
        value.data<uint8_t>(2)[i] = (code & 0x7F) == 0x7F ? 0x7F : code;
        break;
      }
    }
  }
  if (value.type.spec.occ.residual == ResidualFormat::e4m3)
    value.data<uint8_t>(3)[0] = static_cast<uint8_t>(dice_.one_in(8) ? dice_.below(256) : dice_.between(110, 130));
  case_.inputs.push_back(std::move(value));
}

void CaseBuilder::operand(const Shape& shape, const std::string& format, Axis axis, Codes codes) {
  if (format == "f32")
    f32(shape);
  else if (format == "bf16")
    bf16(shape);
  else
    packed(shape, format, axis, codes);
}

int64_t draw_size(Dice& dice) {
  constexpr int64_t kNear[] = {16, 32, 48, 64, 96, 128};
  switch (dice.below(8)) {
    case 0: return dice.one_in(6) ? 0 : 1;
    case 1: return dice.pick(kNear) + dice.between(-1, 1);
    case 2: return dice.pick(kNear);
    case 3: return dice.between(1, 140);
    default: return dice.between(1, 20);
  }
}

int64_t draw_long_size(Dice& dice) {
  constexpr int64_t kNear[] = {1024, 2048, 3072, 4096};
  if (!dice.one_in(5)) return draw_size(dice);
  return dice.pick(kNear) + dice.between(-2, 40);
}

const char* draw_axis(Dice& dice) { return dice.one_in(2) ? "last" : "first"; }

bool is_size(const std::string& argument) {
  return std::any_of(std::begin(kSizes), std::end(kSizes), [&](const char* s) { return argument == s; });
}

bool is_spec(const std::string& argument) {
  return std::any_of(std::begin(kSpecs), std::end(kSpecs), [&](const char* s) { return argument == s; });
}

}  // namespace fp4sim::fuzz
