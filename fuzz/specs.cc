#include "fuzz/specs.h"

#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

constexpr const char* kPublished[] = {"mxfp4",
                                      "nvfp4",
                                      "mxfp6e2m3",
                                      "mxfp6e3m2",
                                      "mxfp8e4m3",
                                      "mxfp8e5m2",
                                      "mxint8",
                                      "e2m1:row:fp32:rne",
                                      "e2m1:b32:e8m0/ceil:rne",
                                      "e5m2:tensor:fp32:rne",
                                      "e2m1:2d16:e4m3/te:rne",
                                      "e2m1:b16:e4m3/te:sr32",
                                      "e2m1:b32:e8m0/floor:sr32",
                                      "e4m3:tensor:fp32:rne",
                                      "e2m1:tensor:fp32:rne",
                                      "e2m1:b32:e8m0/rceil:sr8",
                                      "bf16:none:rne",
                                      "e5m2:tensor:fp32:sr32",
                                      "bf16:none:sr32",
                                      "e2m1:b16:e4m3/4over6(mse):rne"};
constexpr const char* kElements[] = {"e2m1",  "e1m2",  "e3m0",  "e2m3",     "e3m2", "e4m3", "e5m2",
                                     "int8",  "int4",  "bf16",  "fp16",     "e2m1", "e2m1", "e2m1b0f",
                                     "e3m3f", "e4m1f", "e1m1f", "e2m1b-3f", "e5m0f"};
constexpr const char* kGranularities[] = {"b16", "b32", "b64", "b128", "2d16", "2d32", "row", "col", "tensor"};
constexpr const char* kUnsignedScales[] = {"ue4m4", "ue5m3", "ue3m4", "ue8m0", "ue2m6", "ue6m1", "ue1m7"};
constexpr const char* kAlphas[] = {"0.5", "0.9", "0.97", "0.99", "0.999", "1"};
constexpr const char* kResiduals[] = {"fp32", "bf16", "e4m3"};
constexpr const char* kEstimators[] = {
    "ste",        "ste_clip",   "dge(5,3)",  "dge(3,3)",  "dge(5,10)", "dge(k=5,clip=3,eps=0.01)",
    "dge(1.5,2)", "soft(1)",    "soft(20)",  "soft(5)",   "soft(100)", "dsq(0.2)",
    "dsq(0.5)",   "dsq(0.05)",  "ewgs(0.1)", "ewgs(0.5)", "ewgs(0)",   "quest",
    "dge(8,3)",   "dge(2.5,3)", "dge(5,3)"};

std::string draw_scale(Dice& dice) {
  if (dice.one_in(8)) return std::string(dice.pick(kUnsignedScales)) + (dice.one_in(2) ? "/one" : "/te");
  const ScaleRuleRow& row = dice.pick(kScaleRules);
  const char* scale = row.scale == ScaleFormat::e8m0 ? "e8m0" : row.scale == ScaleFormat::e4m3 ? "e4m3" : "fp32";
  return std::string(scale) + "/" + row.name;
}

std::string draw_any(Dice& dice) {
  std::string text = dice.pick(kElements);
  const bool level = text == "bf16" || text == "fp16";  // 16-bit elements take no scale
  text += level || dice.one_in(8) ? ":none" : std::string(":") + dice.pick(kGranularities) + ":" + draw_scale(dice);
  text += std::string(":") + (dice.one_in(2) ? "rne" : dice.pick(kRoundings).name);
  if (dice.one_in(8)) text += "+sr34";
  if (dice.one_in(8)) text += "+ieee";
  return text;
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
  const QuantSpec first = parse_quant_spec(spec);
  for (int i = 0; i < kAttempts; ++i) {
    const std::string text = draw_spec(dice);
    const QuantSpec second = parse_quant_spec(text);
    if (second.granularity == first.granularity && second.block_size == first.block_size) return text;
  }
  return spec;
}

std::string draw_occ_spec(Dice& dice, bool with_none) {
  std::string text = std::string("e2m1:row:fp32:rne+occ(") + dice.pick(kAlphas) + "," +
                     (with_none && dice.one_in(5) ? "none" : dice.pick(kResiduals)) + ",";
  text += dice.one_in(2) ? "tensor)" : "row)";
  return to_string(parse_quant_spec(text));
}

std::string draw_estimator(Dice& dice) {
  for (int i = 0; i < kAttempts; ++i) {
    const std::string text = dice.pick(kEstimators);
    try {
      require_computable(parse_estimator(text));
      return to_string(parse_estimator(text));
    } catch (const UsageError&) {
      continue;  // a row that this version does not compute
    }
  }
  throw Error("no computable estimator found");
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
  });
  offer([](QuantSpec& s) {
    if (s.granularity == Granularity::block || s.granularity == Granularity::tile2d) s.block_size = 16;
  });
  offer([](QuantSpec& s) {
    if (s.granularity == Granularity::tile2d) s.granularity = Granularity::block;
  });
  offer([](QuantSpec& s) { s.element = kE2m1; });
  offer([](QuantSpec& s) { s.occ.per_tensor = false; });
  offer([](QuantSpec& s) {
    if (s.occ.enabled) s.occ.residual = ResidualFormat::fp32;
  });
  return simpler;
}

}  // namespace fp4sim::fuzz
