#include "reference/contract/quant_spec.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "reference/contract/fp_environment.h"
#include "reference/contract/text_cursor.h"

namespace fp4sim {
namespace {

struct GranularityRow {
  const char* name;
  Granularity granularity;
  int32_t block_size;
};
constexpr GranularityRow kGranularities[] = {
    {"none", Granularity::none, 0},     {"b16", Granularity::block, 16},   {"b32", Granularity::block, 32},
    {"b64", Granularity::block, 64},    {"b128", Granularity::block, 128}, {"2d16", Granularity::tile2d, 16},
    {"2d32", Granularity::tile2d, 32},  {"row", Granularity::row, 0},      {"col", Granularity::col, 0},
    {"tensor", Granularity::tensor, 0},
};

struct ScaleFormatRow {
  const char* name;
  ScaleFormat scale;
};
constexpr ScaleFormatRow kScaleFormats[] = {
    {"e8m0", ScaleFormat::e8m0}, {"e4m3", ScaleFormat::e4m3}, {"fp32", ScaleFormat::fp32}};

struct SignsRow {
  const char* name;
  HadamardSigns signs;
};
constexpr SignsRow kSigns[] = {
    {"none", HadamardSigns::none}, {"fixed16", HadamardSigns::fixed16}, {"philox", HadamardSigns::philox}};

struct ResidualRow {
  const char* name;
  ResidualFormat residual;
};
constexpr ResidualRow kResiduals[] = {{"fp32", ResidualFormat::fp32},
                                      {"bf16", ResidualFormat::bf16},
                                      {"e4m3", ResidualFormat::e4m3},
                                      {"none", ResidualFormat::none}};

struct HadamardSizeRow {
  const char* name;
  int32_t n;
};
constexpr HadamardSizeRow kHadamardSizes[] = {{"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}};

struct PerTensorRow {
  const char* name;
  bool per_tensor;
};
constexpr PerTensorRow kPerTensor[] = {{"row", false}, {"tensor", true}};

/// "what (a, b, c)": what a message says was expected.
template <class Rows>
std::string choices(const std::string& what, const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return what + " (" + names + ")";
}

/// The row whose name comes next, consumed; fails with the names there are.
template <class Rows>
const auto& parse_row(TextCursor& cursor, const std::string& what, const Rows& rows) {
  const std::string_view word = cursor.peek_word();
  for (const auto& row : rows) {
    if (word != row.name) continue;
    cursor.accept(word);
    return row;
  }
  cursor.fail(choices(what, rows));
}

/// The name of the row that holds the value.
template <class Rows, class Matches>
const char* name_where(const Rows& rows, const Matches& matches) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), matches);
  if (row == std::end(rows)) throw Error("a quantization spec built by hand has a field without a text form");
  return row->name;
}

bool is_two_level(ScaleRule rule) { return rule >= ScaleRule::te && rule <= ScaleRule::four_over_six_mae; }

bool is_wide_level(const ElementFormat& f) { return f.bits >= 16; }

/// e4m3's profiles serve ue formats too.
bool rule_fits(const ScaleRuleRow& row, ScaleFormat scale) {
  return row.scale == (scale == ScaleFormat::ue ? ScaleFormat::e4m3 : scale);
}

void parse_granularity(TextCursor& cursor, QuantSpec& spec) {
  const size_t begin = cursor.position();
  const GranularityRow& row = parse_row(cursor, "a granularity", kGranularities);
  spec.granularity = row.granularity;
  spec.block_size = row.block_size;
  if (is_unscaled(spec)) return;
  if (is_identity_f32(spec.element)) cursor.fail_at(begin, "fp32 is the identity and takes no scale");
  if (spec.element.bias_auto) cursor.fail_at(begin, "an automatic bias (bauto) needs granularity `none`");
}

void parse_scale_format(TextCursor& cursor, QuantSpec& spec) {
  const std::string expected = choices("a scale format", kScaleFormats) + " or ue{E}m{M}";
  const std::string_view word = cursor.peek_word();
  for (const ScaleFormatRow& row : kScaleFormats)
    if (word == row.name) spec.scale = row.scale;
  if (spec.scale != ScaleFormat::none) {
    cursor.accept(word);
    return;
  }
  cursor.expect("ue", expected);
  spec.scale = ScaleFormat::ue;
  const size_t begin = cursor.position();
  int e = 0, m = 0;
  if (!cursor.accept_number(e) || e < 1 || e > 8) cursor.fail_at(begin, "expected exponent bits E from 1 to 8");
  cursor.expect("m", "`m` and the mantissa bits");
  const size_t m_begin = cursor.position();
  if (!cursor.accept_number(m) || m < 0 || m > 7) cursor.fail_at(m_begin, "expected mantissa bits M from 0 to 7");
  if (e + m < 2 || e + m > 8) cursor.fail_at(begin, "a ue scale format has 2 to 8 bits: E + M");
  spec.scale_exponent_bits = static_cast<int8_t>(e);
  spec.scale_mantissa_bits = static_cast<int8_t>(m);
}

std::string rules_of(ScaleFormat scale) {
  std::string names;
  for (const ScaleRuleRow& row : kScaleRules)
    if (rule_fits(row, scale)) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

void parse_scale_rule(TextCursor& cursor, QuantSpec& spec) {
  const bool given = cursor.accept("/");
  const size_t begin = cursor.position();
  for (const ScaleRuleRow& row : kScaleRules) {
    if (!rule_fits(row, spec.scale) || spec.rule != ScaleRule::none) continue;
    const std::string_view name = row.name;
    const bool parenthesized = name.ends_with(')');
    const bool found = parenthesized ? cursor.rest().starts_with(name) : cursor.peek_word() == name;
    if (given ? !found : !row.is_default) continue;
    if (given) cursor.accept(name);
    spec.rule = row.rule;
  }
  if (spec.rule == ScaleRule::none) cursor.fail("a rule of this scale format (" + rules_of(spec.scale) + ")");
  const bool any_element = spec.rule == ScaleRule::te || spec.rule == ScaleRule::exact || spec.rule == ScaleRule::one;
  if (is_two_level(spec.rule) && !any_element && !(spec.element == kE2m1 && spec.scale == ScaleFormat::e4m3))
    cursor.fail_at(begin, "this profile is for e2m1 with e4m3 scales only");
}

OccOption parse_occ(TextCursor& cursor) {
  OccOption occ;
  occ.enabled = true;
  const size_t begin = cursor.position();
  if (!cursor.accept_number(occ.alpha)) cursor.fail("alpha from 0.5 to 1");
  if (!(occ.alpha >= 0.5 && occ.alpha <= 1)) cursor.fail_at(begin, "alpha must be from 0.5 to 1");
  cursor.expect(",", "`,` and the residual format");
  occ.residual = parse_row(cursor, "a residual format", kResiduals).residual;
  if (cursor.accept(",")) occ.per_tensor = parse_row(cursor, "the quantiles' granularity", kPerTensor).per_tensor;
  cursor.expect(")", "`)`");
  return occ;
}

HadamardOption parse_hadamard(TextCursor& cursor) {
  HadamardOption hadamard;
  hadamard.n = parse_row(cursor, "a Hadamard size", kHadamardSizes).n;
  cursor.expect(",", "`,` and the signs");
  hadamard.signs = parse_row(cursor, "signs", kSigns).signs;
  cursor.expect(")", "`)`");
  return hadamard;
}

void check_ieee(const TextCursor& cursor, size_t begin, const QuantSpec& spec) {
  if (spec.element.specials == Specials::none)
    cursor.fail_at(begin, "policy ieee needs a format with NaN or Inf; " + format_name(spec.element) + " has neither");
  if (is_two_level(spec.rule)) cursor.fail_at(begin, "policy ieee cannot be combined with e4m3 or ue scales");
}

void parse_option(TextCursor& cursor, QuantSpec& spec) {
  const size_t begin = cursor.position();
  const auto once = [&](bool given) {
    if (given) cursor.fail_at(begin, "this option is given twice");
  };
  if (cursor.accept("occ(")) {
    once(spec.occ.enabled);
    spec.occ = parse_occ(cursor);
  } else if (cursor.accept("had(")) {
    once(spec.hadamard.n != 0);
    spec.hadamard = parse_hadamard(cursor);
  } else if (cursor.peek_word() == "sr34") {
    once(spec.sr34);
    spec.sr34 = cursor.accept("sr34");
  } else if (cursor.peek_word() == "ieee") {
    once(spec.ieee);
    check_ieee(cursor, begin, spec);
    spec.ieee = cursor.accept("ieee");
  } else {
    cursor.fail("an option: occ(alpha,residual[,row|tensor]), had(n,signs), sr34 or ieee");
  }
  if (spec.occ.enabled && spec.sr34) cursor.fail_at(begin, "occ and sr34 cannot be combined");
}

/// The part before the options, without a leading alias.
QuantSpec parse_plain(TextCursor& cursor) {
  QuantSpec spec;
  spec.element = parse_element_format(cursor);
  if (!cursor.accept(":")) {
    // A bare name is a level only where it cannot be mistaken for a forgotten scale.
    if (!is_wide_level(spec.element)) cursor.fail(choices("`:` and a granularity", kGranularities));
    return spec;
  }
  parse_granularity(cursor, spec);
  if (!is_unscaled(spec)) {
    cursor.expect(":", "`:` and " + choices("a scale format", kScaleFormats) + " or ue{E}m{M}");
    parse_scale_format(cursor, spec);
    parse_scale_rule(cursor, spec);
  }
  return spec;
}

}  // namespace

QuantSpec parse_quant_spec(std::string_view text) {
  const FpEnvironment environment;  // decimal fractions must not follow the caller's rounding mode
  TextCursor cursor("spec", text);
  const std::string_view word = cursor.peek_word();
  const auto* alias = std::find_if(std::begin(kSpecAliases), std::end(kSpecAliases),
                                   [&](const SpecAlias& a) { return word == a.name; });
  const bool is_alias = alias != std::end(kSpecAliases);
  QuantSpec spec;
  if (is_alias) {
    cursor.accept(word);
    spec = parse_quant_spec(alias->expansion);
  } else {
    spec = parse_plain(cursor);
  }
  // An alias takes another rounding (`mxfp4:sr32`) and options; its format, blocks and scales are its meaning.
  if (cursor.accept(":")) spec.rounding = parse_row(cursor, "a rounding", kRoundings).rounding;
  while (cursor.accept("+")) parse_option(cursor, spec);
  if (!cursor.at_end()) cursor.fail("`:` and a rounding, `+` and an option, or the end");
  return spec;
}

std::string to_string(const QuantSpec& s) {
  std::string text = format_name(s.element);
  const auto part = [&](const std::string& t) { text += t; };
  const bool bare = is_unscaled(s) && s.rounding == Rounding::rne && is_wide_level(s.element);
  if (!bare) {
    part(":" + std::string(name_where(kGranularities, [&](const GranularityRow& r) {
           return r.granularity == s.granularity && r.block_size == s.block_size;
         })));
    if (s.scale == ScaleFormat::ue)
      part(":ue" + std::to_string(s.scale_exponent_bits) + "m" + std::to_string(s.scale_mantissa_bits));
    else if (s.scale != ScaleFormat::none)
      part(":" + std::string(name_where(kScaleFormats, [&](const ScaleFormatRow& r) { return r.scale == s.scale; })));
    if (s.scale != ScaleFormat::none)
      part("/" + std::string(name_where(kScaleRules, [&](const ScaleRuleRow& r) { return r.rule == s.rule; })));
    part(":" + std::string(name_where(kRoundings, [&](const RoundingRow& r) { return r.rounding == s.rounding; })));
  }
  if (s.occ.enabled)
    part("+occ(" + shortest_text(s.occ.alpha) + "," +
         name_where(kResiduals, [&](const ResidualRow& r) { return r.residual == s.occ.residual; }) + "," +
         name_where(kPerTensor, [&](const PerTensorRow& r) { return r.per_tensor == s.occ.per_tensor; }) + ")");
  if (s.hadamard.n != 0)
    part("+had(" + std::to_string(s.hadamard.n) + "," +
         name_where(kSigns, [&](const SignsRow& r) { return r.signs == s.hadamard.signs; }) + ")");
  if (s.sr34) part("+sr34");
  if (s.ieee) part("+ieee");
  return text;
}

bool is_identity(const QuantSpec& s) {
  return is_identity_f32(s.element) && is_unscaled(s) && !s.occ.enabled && s.hadamard.n == 0 && !s.sr34;
}

ElementFormat scale_element(const QuantSpec& spec) {
  const bool e4m3 = spec.scale == ScaleFormat::e4m3;
  if (!e4m3 && spec.scale != ScaleFormat::ue)
    throw Error("spec `" + to_string(spec) + "` has no floating-point scale format of one byte");
  const int e = e4m3 ? kE4m3.exponent_bits : spec.scale_exponent_bits;
  const int m = e4m3 ? kE4m3.mantissa_bits : spec.scale_mantissa_bits;
  return {static_cast<int8_t>(1 + e + m),
          static_cast<int8_t>(e),
          static_cast<int8_t>(m),
          static_cast<int16_t>((1 << (e - 1)) - 1),
          Encoding::sign_magnitude,
          Specials::nan_only,
          false,
          false};
}

void require_computable(const QuantSpec& s) {
  if (is_unscaled(s) || !is_wide_level(s.element)) return;
  throw UsageError("spec `" + to_string(s) + "`: a scale on " + format_name(s.element) +
                   " is not computed: bf16 and fp16 are unscaled levels");
}

}  // namespace fp4sim
