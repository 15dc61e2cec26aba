// The text forms of specs and formats (numerics.md §2, §4): round trip, aliases, defaults, and errors with their
// column.
#include "reference/contract/quant_spec.h"

#include <functional>

#include "reference/contract/error.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

/// The message of the UsageError that parsing throws; empty if it parses.
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}
std::string parse_error(const std::string& text) {
  return message_of([&] { (void)parse_quant_spec(text); });
}

TEST(QuantSpecText, every_example_of_the_grammar_has_its_canonical_form) {
  const struct {
    const char *text, *canonical;
  } rows[] = {
      {"e2m1:b32:e8m0/floor:rne", "e2m1:b32:e8m0/floor:rne"},
      {"e2m1:b32:e8m0", "e2m1:b32:e8m0/floor:rne"},
      {"e2m1:row:fp32:rne", "e2m1:row:fp32/amax:rne"},
      {"e2m1:row:fp32/pow2:rnu", "e2m1:row:fp32/pow2:rnu"},
      {"e2m1:b16:e4m3/te:sr32", "e2m1:b16:e4m3/te:sr32"},
      {"e2m1:2d16:e4m3/te", "e2m1:2d16:e4m3/te:rne"},
      {"e2m1:b32:e4m3/one", "e2m1:b32:e4m3/one:rne"},
      {"e5m2:tensor:fp32", "e5m2:tensor:fp32/amax:rne"},
      {"e5m2:tensor:fp32+ieee", "e5m2:tensor:fp32/amax:rne+ieee"},
      {"bf16", "bf16"},
      {"bf16:none", "bf16"},
      {"bf16:none:rtz", "bf16:none:rtz"},
      {"fp16:tensor:fp32/pow2", "fp16:tensor:fp32/pow2:rne"},
      {"e2m1b0f:none", "e2m1b0f:none:rne"},
      {"e2m1b1f:none", "e2m1f:none:rne"},
      {"e2m1b-3f:none", "e2m1b-3f:none:rne"},
      {"e2m1bautof:none", "e2m1bautof:none:rne"},
      {"e2m1:b32:ue5m3", "e2m1:b32:ue5m3/te:rne"},
      {"e2m1:b128:ue3m4/exact:sr8", "e2m1:b128:ue3m4/exact:sr8"},
      {"e2m1:b16:e4m3/4over6(mse)", "e2m1:b16:e4m3/4over6(mse):rne"},
      {"e2m1:b16:e4m3/4over6(mae):sr32", "e2m1:b16:e4m3/4over6(mae):sr32"},
      {"int8:col:e8m0/opt", "int8:col:e8m0/opt:rne"},
      {"mxfp4", "e2m1:b32:e8m0/floor:rne"},
      {"mxfp4:sr32", "e2m1:b32:e8m0/floor:sr32"},
      {"mxfp6e2m3", "e2m3:b32:e8m0/floor:rne"},
      {"mxfp8e5m2+ieee", "e5m2:b32:e8m0/floor:rne+ieee"},
      {"nvfp4+had(16,philox)+occ(0.99,e4m3)", "e2m1:b16:e4m3/te:rne+occ(0.99,e4m3,row)+had(16,philox)"},
      {"mxfp4:sr32+sr34", "e2m1:b32:e8m0/floor:sr32+sr34"},
      {"mxfp4+occ(0.999,none,tensor)", "e2m1:b32:e8m0/floor:rne+occ(0.999,none,tensor)"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(parse_error(row.text), "");
    EXPECT_EQ(to_string(parse_quant_spec(row.text)), row.canonical);
    EXPECT_EQ(parse_quant_spec(row.canonical), parse_quant_spec(row.text)) << row.text;
  }
}

TEST(QuantSpecText, aliases_equal_their_expansions_which_are_canonical) {
  for (const SpecAlias& alias : kSpecAliases) {
    EXPECT_EQ(parse_quant_spec(alias.name), parse_quant_spec(alias.expansion));
    EXPECT_EQ(to_string(parse_quant_spec(alias.name)), alias.expansion);
  }
}

TEST(QuantSpecText, errors_name_the_column_and_what_was_expected) {
  const struct {
    const char* text;
    int column;
    const char* words;
  } rows[] = {
      {"", 1, "element format"},
      {"xyz", 1, "element format"},
      {"e2m1", 5, "granularity"},
      {"e2m1+ieee", 5, "granularity"},
      {"e2m1:b33:e8m0", 6, "b32"},
      {"e2m1:b32", 9, "scale format"},
      {"e2m1:b32:e8m1", 10, "scale format"},
      {"e2m1:b32:e8m0/te", 15, "floor"},
      {"e2m1:b32:fp32/floor", 15, "amax"},
      {"e2m1:b32:e4m3/4over6", 15, "4over6(mse)"},
      {"e2m1:b32:e8m0/floor:rnx", 21, "rounding"},
      {"e2m1:b32:e8m0:floor", 15, "rounding"},
      {"mxfp4 ", 6, "the end"},
      {"mxfp4:rne:rne", 10, "the end"},
      {"mxfp4+", 7, "option"},
      {"mxfp4+occ", 7, "option"},
      {"mxfp4+occ(x,e4m3)", 11, "alpha"},
      {"mxfp4+occ(0.4,e4m3)", 11, "alpha"},
      {"mxfp4+occ(nan,e4m3)", 11, "alpha"},
      {"mxfp4+occ(0.99)", 15, "residual"},
      {"mxfp4+occ(0.99,fp8)", 16, "e4m3"},
      {"mxfp4+occ(0.99,e4m3,col)", 21, "tensor"},
      {"mxfp4+occ(0.99,e4m3,row", 24, ")"},
      {"mxfp4+had(24,none)", 11, "32"},
      {"mxfp4+had(16)", 13, "signs"},
      {"mxfp4+had(16,random)", 14, "philox"},
      {"mxfp4+sr34+sr34", 12, "twice"},
      {"mxfp4+occ(0.9,none)+occ(0.9,none)", 21, "twice"},
      {"e2m1:b32:ue0m4", 12, "1 to 8"},
      {"e2m1:b32:ue9m0", 12, "1 to 8"},
      {"e2m1:b32:ue4m8", 14, "0 to 7"},
      {"e2m1:b32:ue1m0", 12, "2 to 8 bits"},
      {"e2m1:b32:ue5m4", 12, "2 to 8 bits"},
      {"e6m1f:none", 2, "1 to 5"},
      {"e2m7f:none", 4, "0 to 6"},
      {"e5m6f:none", 1, "3 to 8 bits"},
      {"e1m0f:none", 1, "3 to 8 bits"},
      {"e2m1b:none", 6, "bias"},
      {"e3m3:none", 5, "f"},
  };
  for (const auto& row : rows) {
    const std::string message = parse_error(row.text);
    const std::string head = "spec `" + std::string(row.text) + "`, column " + std::to_string(row.column) + ": ";
    EXPECT_TRUE(message.starts_with(head)) << row.text << " gave: " << message;
    EXPECT_NE(message.find(row.words), std::string::npos) << row.text << " gave: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(QuantSpecText, combinations_that_are_errors_are_rejected_in_one_line) {
  const struct {
    const char *text, *words;
  } rows[] = {
      {"e2m1:none+ieee", "neither"},
      {"e2m1:b32:e8m0+ieee", "e2m1"},
      {"int8:b32:e8m0+ieee", "neither"},
      {"e4m3:b32:e4m3/te+ieee", "e4m3 or ue scales"},
      {"e5m2:b32:e4m3/one+ieee", "e4m3 or ue scales"},
      {"e4m3:b16:e4m3/torchao", "e2m1 with e4m3"},
      {"e3m0:b16:e4m3/modelopt", "e2m1 with e4m3"},
      {"e2m1:b16:ue5m3/fouroversix", "e2m1 with e4m3"},
      {"e2m1:b16:ue4m3/4over6(mse)", "e2m1 with e4m3"},
      {"e2m1bautof:b32:e8m0", "bauto"},
      {"e2m1bautof:tensor:fp32", "bauto"},
      {"fp32:b32:e8m0", "identity"},
      {"mxfp4+occ(0.9,e4m3)+sr34", "occ and sr34"},
      {"mxfp4+sr34+occ(0.9,e4m3)", "occ and sr34"},
  };
  for (const auto& row : rows) {
    const std::string message = parse_error(row.text);
    EXPECT_NE(message.find(row.words), std::string::npos) << row.text << " gave: " << message;
    EXPECT_NE(message.find("column"), std::string::npos) << message;
  }
}

TEST(UserFormats, take_exactly_the_biases_that_binary32_can_hold) {
  for (int e = 1; e <= 5; ++e)
    for (int m = 0; m <= 6; ++m) {
      if (1 + e + m < 3 || 1 + e + m > 8) continue;
      const std::string name = "e" + std::to_string(e) + "m" + std::to_string(m);
      for (int bias = -140; bias <= 160; ++bias) {
        const ElementFormat f{static_cast<int8_t>(1 + e + m),
                              static_cast<int8_t>(e),
                              static_cast<int8_t>(m),
                              static_cast<int16_t>(bias),
                              Encoding::sign_magnitude,
                              Specials::none,
                              true,
                              false};
        const bool fits = max_normal_value(f) <= 0x1.fffffep127 && min_positive_value(f) >= 0x1p-149;
        const std::string text = name + "b" + std::to_string(bias) + "f:none";
        EXPECT_EQ(parse_error(text).empty(), fits) << text;
        if (!fits) continue;
        EXPECT_EQ(parse_quant_spec(text).element, f);
        EXPECT_EQ(parse_quant_spec(format_name(f) + ":none").element, f);
      }
    }
}

TEST(UserFormats, keep_apart_from_the_built_in_rows_by_their_suffix) {
  EXPECT_NE(parse_quant_spec("e2m1f:none"), parse_quant_spec("e2m1:none"));
  EXPECT_EQ(format_name(parse_quant_spec("e1m2f:none").element), "e1m2f");
  EXPECT_EQ(parse_quant_spec("e1m2f:none").element.bias, 1);
  EXPECT_EQ(parse_quant_spec("e5m2f:none").element.specials, Specials::none);
}

TEST(ScaleElement, has_nan_as_all_ones_and_the_maximum_below_it) {
  const ElementFormat e4m3 = scale_element(parse_quant_spec("nvfp4"));
  EXPECT_EQ(max_normal_value(e4m3), 448);
  EXPECT_EQ(nan_code(e4m3), 0x7Fu);
  const ElementFormat ue5m3 = scale_element(parse_quant_spec("e2m1:b16:ue5m3"));
  EXPECT_EQ(nan_code(ue5m3), 0xFFu);
  EXPECT_EQ(max_normal_code(ue5m3), 0xFEu);
  EXPECT_EQ(max_normal_value(ue5m3), 114688);  // 1.75·2^(31 − 15)
  EXPECT_EQ(max_normal_value(scale_element(parse_quant_spec("e2m1:b16:ue8m0"))), 0x1p127);
  EXPECT_THROW(scale_element(parse_quant_spec("mxfp4")), Error);
}

TEST(Identity, is_fp32_without_transforms_only) {
  EXPECT_TRUE(is_identity(QuantSpec{}));
  EXPECT_TRUE(is_identity(parse_quant_spec("fp32")));
  EXPECT_EQ(parse_quant_spec("fp32"), QuantSpec{});
  for (const char* text : {"bf16", "fp32+had(16,none)", "fp32+occ(0.9,none)", "mxfp4"})
    EXPECT_FALSE(is_identity(parse_quant_spec(text))) << text;
}

TEST(Policy, is_ieee_for_unscaled_wide_levels_and_where_asked) {
  for (const char* text : {"bf16", "fp16:none:rtz", "fp32", "e5m2:tensor:fp32+ieee"})
    EXPECT_TRUE(uses_ieee(parse_quant_spec(text))) << text;
  for (const char* text : {"e4m3:none", "fp16:tensor:fp32/pow2", "mxfp8e5m2"})
    EXPECT_FALSE(uses_ieee(parse_quant_spec(text))) << text;
}

TEST(Computable, is_every_spec_but_a_scale_on_bf16_or_fp16) {
  for (const char* text : {"mxfp4:sr8", "nvfp4:sr32+sr34", "e2m1:row:fp32/pow2:rnu", "e5m2:tensor:fp32+ieee", "mxint8",
                           "e1m2:b32:e8m0/opt", "e2m1f:none", "e2m1bautof:none", "e3m0:2d16:e8m0", "int4:col:fp32",
                           "e2m1:b16:ue5m3", "e2m1:b16:e4m3/exact", "e2m1:b16:e4m3/4over6(mse)", "bf16:none:sr32",
                           "fp16", "fp32", "e2m1:b32:e4m3/one+occ(0.99,e4m3)+had(16,philox)"})
    EXPECT_NO_THROW(require_computable(parse_quant_spec(text))) << text;
  for (const char* text : {"fp16:tensor:fp32/pow2", "bf16:b32:e8m0"}) {
    const std::string message = message_of([&] { require_computable(parse_quant_spec(text)); });
    EXPECT_NE(message.find(std::string("a scale on ") + (text[0] == 'f' ? "fp16" : "bf16")), std::string::npos)
        << message;
  }
}

/// A random valid spec, drawn from the rows.
rc::Gen<std::string> any_spec() {
  using Texts = std::vector<std::string>;
  return rc::gen::exec([] {
    std::string text = *rc::gen::elementOf(
        Texts{"e2m1", "e1m2", "e3m0", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "int4", "e2m1b-7f", "e5m2f", "e1m6b9f"});
    text += *rc::gen::elementOf(
        Texts{":none", ":b16", ":b32", ":b64", ":b128", ":2d16", ":2d32", ":row", ":col", ":tensor"});
    if (!text.ends_with(":none"))
      text += *rc::gen::elementOf(Texts{":e8m0", ":e8m0/even", ":e8m0/opt", ":e4m3", ":e4m3/one", ":e4m3/exact",
                                        ":fp32", ":fp32/pow2", ":ue3m4", ":ue8m0/one"});
    text += *rc::gen::elementOf(Texts{"", ":rne", ":rna", ":rnz", ":rnu", ":rtz", ":rtp", ":rtn", ":sr32", ":sr8"});
    if (*rc::gen::arbitrary<bool>()) {
      const double alpha = *rc::gen::inRange(500000, 1000001) / 1e6;
      text += "+occ(" + std::to_string(alpha) + "," + *rc::gen::elementOf(Texts{"none", "fp32", "bf16", "e4m3"}) +
              *rc::gen::elementOf(Texts{"", ",row", ",tensor"}) + ")";
    }
    if (*rc::gen::arbitrary<bool>())
      text += "+had(" + *rc::gen::elementOf(Texts{"16", "32", "64", "128"}) + "," +
              *rc::gen::elementOf(Texts{"none", "fixed16", "philox"}) + ")";
    return text;
  });
}

RC_GTEST_PROP(QuantSpecProperty, parsing_the_printed_form_gives_the_same_spec, ()) {
  const QuantSpec spec = parse_quant_spec(*any_spec());
  RC_ASSERT(parse_quant_spec(to_string(spec)) == spec);
  RC_ASSERT(to_string(parse_quant_spec(to_string(spec))) == to_string(spec));
}

RC_GTEST_PROP(QuantSpecProperty, any_one_changed_character_parses_or_fails_with_a_column, ()) {
  std::string text = *any_spec();
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  text[at] = *rc::gen::element('0', '1', '3', 'e', 'm', 'b', ':', '/', '+', '(', ',', ' ', 'x');
  const std::string message = parse_error(text);
  if (message.empty()) {
    RC_ASSERT(parse_quant_spec(to_string(parse_quant_spec(text))) == parse_quant_spec(text));
  } else {
    RC_ASSERT(message.find(", column ") != std::string::npos);
  }
}

}  // namespace
}  // namespace fp4sim
