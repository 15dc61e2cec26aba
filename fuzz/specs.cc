#include "fuzz/specs.h"

#include "reference/contract/error.h"
#include "reference/contract/value_type.h"

namespace fp4sim::fuzz {
namespace {

// Specs of published recipes and formats; every scale rule is here once, since the arbitrary draws are spread widely.
constexpr const char* kPublished[] = {"mxfp4",
                                      "nvfp4",
                                      "mxfp6e2m3",
                                      "mxfp6e3m2",
                                      "mxfp8e4m3",
                                      "mxfp8e5m2",
                                      "mxint8",
                                      "mxfp4:sr8+sr34",
                                      "e2m1:row:fp32:rne",
                                      "e2m1:row:fp32/pow2:rnu",
                                      "e2m1:col:fp32:rne",
                                      "e2m1:tensor:fp32:rne",
                                      "e4m3:tensor:fp32:rne",
                                      "e5m2:tensor:fp32:rne",
                                      "e5m2:tensor:fp32:sr32",
                                      "int8:row:fp32:rne",
                                      "int4:b32:fp32:rne",
                                      "e2m1:b32:e8m0/ceil:rne",
                                      "e2m1:b32:e8m0/even:rna",
                                      "e2m1:b32:e8m0/floor:sr32",
                                      "e2m1:b32:e8m0/rceil:sr8",
                                      "e2m1:b32:e8m0/opt:rne",
                                      "e2m1:b32:e4m3/one:rne",
                                      "e2m1:2d16:e4m3/te:rne",
                                      "e2m1:b16:e4m3/te:sr32",
                                      "e2m1:b16:e4m3/exact:rne",
                                      "e2m1:b16:e4m3/torchao:rne",
                                      "e2m1:b16:e4m3/modelopt:rne",
                                      "e2m1:b16:e4m3/fouroversix:rne",
                                      "e2m1:b16:e4m3/4over6(mse):rne",
                                      "e2m1:b16:e4m3/4over6(mae):rne",
                                      "e2m1:b16:ue5m3/te:rne",
                                      "e2m1:b16:ue3m4/one:rne",
                                      "e2m1bautof:none:rne",
                                      "bf16:none:rne",
                                      "bf16:none:sr32"};
constexpr const char* kGranularities[] = {"b16", "b32", "b64", "b128", "2d16", "2d32", "row", "col", "tensor"};
constexpr const char* kAlphas[] = {"0.5", "0.9", "0.97", "0.99", "0.999", "1"};
constexpr const char* kResiduals[] = {"fp32", "bf16", "e4m3"};
constexpr const char* kEstimatorTexts[] = {
    "ste",        "ste_clip", "dge(5,3)",  "dge(3,3)",  "dge(5,10)", "dge(k=5,clip=3,eps=0.01)",
    "dge(1.5,2)", "soft(1)",  "soft(20)",  "soft(5)",   "soft(100)", "soft(beta=20,forward=soft)",
    "dsq(0.2)",   "dsq(0.5)", "dsq(0.05)", "ewgs(0.1)", "ewgs(0.5)", "ewgs(0)",
    "quest",      "dge(8,3)", "dge(2.5,3)"};
constexpr const char* kBetas[] = {"0.5", "1", "5", "10", "20", "40", "100", "1000"};

/// e{E}m{M}[b{bias}|bauto]f of §2: 3 to 8 bits; a given bias mostly near the default, seldom at the ends of its range.
std::string draw_user_format(Dice& dice) {
  const auto e = static_cast<int>(dice.between(1, 5));
  const auto m = static_cast<int>(dice.between(e == 1 ? 1 : 0, 7 - e));
  std::string text = "e" + std::to_string(e) + "m" + std::to_string(m);
  const BiasRange range = user_bias_range(e, m);
  switch (dice.below(4)) {
    case 0: text += "bauto"; break;
    case 1: text += "b" + std::to_string(dice.between(-8, 24)); break;
    case 2: {
      const int64_t inwards = dice.between(0, 6);
      text += "b" + std::to_string(dice.one_in(2) ? range.lowest + inwards : range.highest - inwards);
      break;
    }
    default: break;
  }
  return text + "f";
}

std::string draw_element(Dice& dice) {
  if (dice.one_in(4)) return draw_user_format(dice);
  return dice.one_in(5) ? "e2m1" : dice.pick(kElementFormats).name;
}

/// ue{E}m{M} with 2 to 8 bits in all.
std::string draw_unsigned_scale(Dice& dice) {
  const int64_t e = dice.between(1, 8);
  const int64_t m = dice.between(e == 1 ? 1 : 0, e == 1 ? 7 : 8 - e);
  constexpr const char* kRules[] = {"one", "te", "exact"};
  return "ue" + std::to_string(e) + "m" + std::to_string(m) + "/" + dice.pick(kRules);
}

std::string draw_scale(Dice& dice) {
  if (dice.one_in(6)) return draw_unsigned_scale(dice);
  const ScaleRuleRow& row = dice.pick(kScaleRules);
  const char* scale = row.scale == ScaleFormat::e8m0 ? "e8m0" : row.scale == ScaleFormat::e4m3 ? "e4m3" : "fp32";
  return std::string(scale) + "/" + row.name;
}

/// Any element × granularity × scale × rounding × options; not every draw is a spec.
std::string draw_any(Dice& dice) {
  std::string text = draw_element(dice);
  const bool unscaled = text == "bf16" || text == "fp16" || text.find("bauto") != std::string::npos;
  text += unscaled || dice.one_in(8) ? ":none" : std::string(":") + dice.pick(kGranularities) + ":" + draw_scale(dice);
  text += std::string(":") + (dice.one_in(2) ? "rne" : dice.pick(kRoundings).name);
  if (dice.one_in(8)) text += "+sr34";
  if (dice.one_in(8)) text += "+ieee";
  return text;
}

/// Specs of one partition of k multiply by one rule of §7: b{B} and 2d{B}; row and tensor; all that is decoded.
int64_t partition_of(const QuantSpec& spec) {
  constexpr int64_t kWhole = -1;
  const bool whole = spec.granularity == Granularity::row || spec.granularity == Granularity::tensor;
  return whole ? kWhole : contraction_block(spec);
}

constexpr int kAttempts = 1000;

}  // namespace

bool is_computable(const std::string& spec) {
  try {
    require_computable(parse_quant_spec(spec));
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

std::string draw_spec(Dice& dice) {
  // Chosen once: most of the arbitrary combinations are refused, and must not give way to the published ones.
  const bool published = dice.one_in(2);
  for (int i = 0; i < kAttempts; ++i) {
    const std::string text = published ? std::string(dice.pick(kPublished)) : draw_any(dice);
    if (is_computable(text) && !is_identity(parse_quant_spec(text))) return to_string(parse_quant_spec(text));
  }
  throw Error("no computable spec found: the generator's tables do not fit require_computable");
}

std::string draw_partner(Dice& dice, const std::string& spec) {
  const int64_t partition = partition_of(parse_quant_spec(spec));
  for (int i = 0; i < kAttempts; ++i)
    if (std::string text = draw_spec(dice); partition_of(parse_quant_spec(text)) == partition) return text;
  return spec;
}

std::string draw_occ_spec(Dice& dice, bool with_none) {
  std::string text = std::string("e2m1:row:fp32:rne+occ(") + dice.pick(kAlphas) + "," +
                     (with_none && dice.one_in(5) ? "none" : dice.pick(kResiduals)) + ",";
  text += dice.one_in(2) ? "tensor)" : "row)";
  return to_string(parse_quant_spec(text));
}

std::string draw_estimator(Dice& dice) { return to_string(parse_estimator(dice.pick(kEstimatorTexts))); }

std::string draw_soft_forward(Dice& dice) {
  return to_string(parse_estimator(std::string("soft(beta=") + dice.pick(kBetas) + ",forward=soft)"));
}

std::vector<std::string> simpler_specs(const std::string& text) {
  const QuantSpec spec = parse_quant_spec(text);
  std::vector<std::string> simpler;
  const auto offer = [&](auto change) {
    QuantSpec other = spec;
    change(other);
    if (other == spec) return;
    const std::string candidate = to_string(other);
    if (is_computable(candidate) && !is_identity(other)) simpler.push_back(candidate);
  };
  offer([](QuantSpec& s) { s.sr34 = false; });
  offer([](QuantSpec& s) { s.ieee = false; });
  offer([](QuantSpec& s) { s.rounding = Rounding::rne; });
  offer([](QuantSpec& s) {
    if (s.scale == ScaleFormat::e8m0) s.rule = ScaleRule::floor;
    if (s.scale == ScaleFormat::fp32) s.rule = ScaleRule::amax;
    if (s.scale == ScaleFormat::e4m3 || s.scale == ScaleFormat::ue) s.rule = ScaleRule::te;
  });
  offer([](QuantSpec& s) {
    if (s.scale == ScaleFormat::ue) s.scale = ScaleFormat::e4m3, s.scale_exponent_bits = s.scale_mantissa_bits = 0;
  });
  offer([](QuantSpec& s) {
    if (s.granularity == Granularity::block || s.granularity == Granularity::tile2d) s.block_size = 16;
  });
  offer([](QuantSpec& s) {
    if (s.granularity == Granularity::tile2d) s.granularity = Granularity::block;
  });
  offer([](QuantSpec& s) {
    if (s.granularity == Granularity::col) s.granularity = Granularity::row;
  });
  offer([](QuantSpec& s) { s.element = kE2m1; });
  offer([](QuantSpec& s) { s.occ.per_tensor = false; });
  offer([](QuantSpec& s) {
    if (s.occ.enabled) s.occ.residual = ResidualFormat::fp32;
  });
  return simpler;
}

}  // namespace fp4sim::fuzz
