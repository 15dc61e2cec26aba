// QuantSpec (numerics.md §4): element format, granularity, scale format and rule, rounding, options.
// Plain data with a text form; `parse_quant_spec` and `to_string` are inverse to each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reference/contract/element_format.h"

namespace fp4sim {

enum class Granularity : uint8_t { none, block, tile2d, row, col, tensor };
enum class ScaleFormat : uint8_t { none, e8m0, e4m3, ue, fp32 };

/// Scale rules and profiles: e8m0 rules (§4.1), two-level profiles (§4.2), fp32 (§4.3: amax, pow2).
enum class ScaleRule : uint8_t {
  none,
  floor,
  ceil,
  even,
  rceil,
  opt,
  te,
  exact,
  torchao,
  modelopt,
  fouroversix,
  one,
  four_over_six_mse,
  four_over_six_mae,
  amax,
  pow2
};

enum class Rounding : uint8_t { rne, rna, rnz, rnu, rtz, rtp, rtn, sr32, sr8 };
enum class HadamardSigns : uint8_t { none, fixed16, philox };
enum class ResidualFormat : uint8_t { none, fp32, bf16, e4m3 };

FP4SIM_HD bool is_stochastic(Rounding r) { return r == Rounding::sr32 || r == Rounding::sr8; }

/// Outlier clamping and compensation (§6). alpha in [0.5, 1].
struct OccOption {
  bool enabled = false;
  double alpha = 0;
  ResidualFormat residual = ResidualFormat::none;
  bool per_tensor = false;  // quantiles of the whole tensor instead of one row
  friend bool operator==(const OccOption&, const OccOption&) = default;
};

/// Hadamard rotation along the contraction axis (§6); n = 0 means off.
struct HadamardOption {
  int32_t n = 0;
  HadamardSigns signs = HadamardSigns::none;
  friend bool operator==(const HadamardOption&, const HadamardOption&) = default;
};

struct QuantSpec {
  ElementFormat element = kFp32;
  Granularity granularity = Granularity::none;
  int32_t block_size = 0;  // B of b{B} and 2d{B}, else 0
  ScaleFormat scale = ScaleFormat::none;
  int8_t scale_exponent_bits = 0;  // E and M of ue{E}m{M}, else 0
  int8_t scale_mantissa_bits = 0;
  ScaleRule rule = ScaleRule::none;
  Rounding rounding = Rounding::rne;
  bool ieee = false;  // policy `ieee` instead of `saturate`
  bool sr34 = false;  // stochastic rounding scaled by 3/4 (§6)
  OccOption occ;
  HadamardOption hadamard;
  friend bool operator==(const QuantSpec&, const QuantSpec&) = default;
};

/// Parses a spec such as `e2m1:b32:e8m0/floor:rne`, `bf16`, `nvfp4`, `mxfp4+had(16,philox)`.
/// Throws UsageError naming the column of the first wrong character.
QuantSpec parse_quant_spec(std::string_view text);

/// The canonical text form; parse_quant_spec(to_string(s)) == s.
std::string to_string(const QuantSpec& spec);

/// True if the spec leaves values as they are (`fp32` without scale or transforms).
bool is_identity(const QuantSpec& spec);

/// True for the unscaled levels (bf16, fp16, `…:none`): no scales are stored.
FP4SIM_HD bool is_unscaled(const QuantSpec& s) { return s.granularity == Granularity::none; }

/// True if encode takes policy `ieee`: asked for, or an unscaled bf16, fp16 or fp32 level (§2).
FP4SIM_HD bool uses_ieee(const QuantSpec& s) { return s.ieee || (is_unscaled(s) && s.element.bits >= 16); }

/// True if a binary32 tensor scale d accompanies the block scales (§4.2; every profile but `one`).
FP4SIM_HD bool has_tensor_scale(const QuantSpec& s) {
  return s.rule >= ScaleRule::te && s.rule <= ScaleRule::four_over_six_mae && s.rule != ScaleRule::one;
}

/// True if the profile uses a tensor-wide amax in any way (needs a pass over the whole tensor first).
FP4SIM_HD bool needs_tensor_amax(const QuantSpec& s) {
  return has_tensor_scale(s) || s.granularity == Granularity::tensor || s.element.bias_auto;
}

/// The scale element row of §4.2 scale formats (e4m3, ue{E}m{M}) as an ElementFormat with an unused sign bit.
ElementFormat scale_element(const QuantSpec& spec);

/// Throws UsageError for a scale on bf16 or fp16: §2 has them as unscaled levels. The text form of such a spec stays
/// valid: it names an optimizer state (§9).
void require_computable(const QuantSpec& spec);

/// The aliases and their expansions, for `fp4sim formats` and the documentation.
struct SpecAlias {
  const char* name;
  const char* expansion;
};
inline constexpr SpecAlias kSpecAliases[] = {
    {"mxfp4", "e2m1:b32:e8m0/floor:rne"},     {"mxfp6e2m3", "e2m3:b32:e8m0/floor:rne"},
    {"mxfp6e3m2", "e3m2:b32:e8m0/floor:rne"}, {"mxfp8e4m3", "e4m3:b32:e8m0/floor:rne"},
    {"mxfp8e5m2", "e5m2:b32:e8m0/floor:rne"}, {"mxint8", "int8:b32:e8m0/floor:rne"},
    {"nvfp4", "e2m1:b16:e4m3/te:rne"},
};

struct RoundingRow {
  const char* name;
  Rounding rounding;
  const char* meaning;
};
inline constexpr RoundingRow kRoundings[] = {
    {"rne", Rounding::rne, "nearest, ties to even code"},
    {"rna", Rounding::rna, "nearest, ties away from zero"},
    {"rnz", Rounding::rnz, "nearest, ties toward zero"},
    {"rnu", Rounding::rnu, "nearest, ties toward +infinity"},
    {"rtz", Rounding::rtz, "toward zero"},
    {"rtp", Rounding::rtp, "toward +infinity"},
    {"rtn", Rounding::rtn, "toward -infinity"},
    {"sr32", Rounding::sr32, "stochastic, 32 random bits"},
    {"sr8", Rounding::sr8, "stochastic, 8 random bits"},
};

struct ScaleRuleRow {
  const char* name;
  ScaleRule rule;
  ScaleFormat scale;  // the scale format the rule belongs to (e4m3 rules also take ue formats)
  bool is_default;    // for its scale format
};
inline constexpr ScaleRuleRow kScaleRules[] = {
    {"floor", ScaleRule::floor, ScaleFormat::e8m0, true},
    {"ceil", ScaleRule::ceil, ScaleFormat::e8m0, false},
    {"even", ScaleRule::even, ScaleFormat::e8m0, false},
    {"rceil", ScaleRule::rceil, ScaleFormat::e8m0, false},
    {"opt", ScaleRule::opt, ScaleFormat::e8m0, false},
    {"te", ScaleRule::te, ScaleFormat::e4m3, true},
    {"exact", ScaleRule::exact, ScaleFormat::e4m3, false},
    {"torchao", ScaleRule::torchao, ScaleFormat::e4m3, false},
    {"modelopt", ScaleRule::modelopt, ScaleFormat::e4m3, false},
    {"fouroversix", ScaleRule::fouroversix, ScaleFormat::e4m3, false},
    {"one", ScaleRule::one, ScaleFormat::e4m3, false},
    {"4over6(mse)", ScaleRule::four_over_six_mse, ScaleFormat::e4m3, false},
    {"4over6(mae)", ScaleRule::four_over_six_mae, ScaleFormat::e4m3, false},
    {"amax", ScaleRule::amax, ScaleFormat::fp32, true},
    {"pow2", ScaleRule::pow2, ScaleFormat::fp32, false},
};

}  // namespace fp4sim
