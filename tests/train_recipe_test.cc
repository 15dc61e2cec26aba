// Recipes and settings: strict reading, one clear line an error, and every key matters.
#include "cli/train/recipe.h"
#include "cli/train/settings.h"
#include "cli/train/training_step.h"
#include "reference/contract/error.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace fp4sim::train {
namespace {

std::string error_of(const std::string& toml) {
  try {
    parse_recipe(toml, "r.toml");
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Recipe, errors_name_the_file_the_line_and_the_key) {
  EXPECT_EQ(error_of("a = 1"),
            "r.toml:1: unknown key `a` in the recipe (known: name, description, activations, product, embedding, "
            "attention, fprop, dgrad, wgrad, override)");
  EXPECT_EQ(error_of("\nactivations = \"fp16\""), "r.toml:2: activations must be `fp32` or `bf16`, got `fp16`");
  EXPECT_EQ(error_of("[fprop]\nz = \"mxfp4\""), "r.toml:2: unknown operand `z` of fprop");
  EXPECT_EQ(error_of("[dgrad]\ndy = { spec = \"mxfp4\", estimator = \"ste\" }"),
            "r.toml:2: dgrad.dy: an estimator belongs to an operand of fprop");
  EXPECT_EQ(error_of("[dgrad]\ndy = { spec = \"mxfp4\", source = \"forward\" }"),
            "r.toml:2: dgrad.dy: source belongs to dgrad.w and wgrad.x");
  EXPECT_EQ(error_of("[fprop]\nx = { estimator = \"ste\" }"), "r.toml:2: fprop.x needs a spec");
  EXPECT_NE(error_of("[fprop]\nx = { spec = \"bf16\", estimator = \"soft(20)\" }").find("at most 8 bits"),
            std::string::npos);
  EXPECT_NE(error_of("[fprop]\nx = \"mxfp5\"").find("r.toml:2: fprop.x: "), std::string::npos);
  EXPECT_NE(error_of("[fprop\n").find("r.toml:"), std::string::npos);
  EXPECT_EQ(error_of("[[override]]\n[override.fprop]\nx = \"mxfp4\""),
            "r.toml:1: override needs `layers`, a pattern such as \"layers.0.*\"");
  const std::string occ = "\"e2m1:row:fp32:rne+occ(0.99,e4m3,row)\"";
  EXPECT_NE(error_of("[fprop]\nx = " + occ + "\nw = " + occ).find("two +occ operands"), std::string::npos);
  EXPECT_NE(error_of("embedding = \"e4m3:row:fp32:rne+had(16,none)\"").find("+had, +occ and +sr34"), std::string::npos);
  EXPECT_NE(error_of("[attention]\nq = \"mxfp4+had(16,none)\"").find("attention q, k"), std::string::npos);
  const std::string rotated = "\"mxfp4+had(32,none)\"";
  EXPECT_NE(error_of("[fprop]\nx = " + rotated + "\nw = " + rotated +
                     "\n[wgrad]\nx = { spec = \"mxfp4\", source = \"forward\" }")
                .find("rotated operand"),
            std::string::npos);
  EXPECT_NE(error_of("[fprop]\nx = \"mxfp4+had(32,none)\"").find("both operands need the same +had"),
            std::string::npos);
  const std::string sr34 = "\"mxfp4:sr8+sr34\"";
  EXPECT_NE(error_of("[fprop]\nx = " + occ + "\nw = " + sr34).find("+occ operand with a +sr34 operand"),
            std::string::npos);
  EXPECT_NE(error_of("[attention]\np = " + occ + "\nv = " + sr34).find("+occ operand with a +sr34 operand"),
            std::string::npos);
  EXPECT_NE(error_of("embedding = " + sr34).find("+sr34 belong to operands"), std::string::npos);
  EXPECT_NE(error_of("[fprop]\nw = " + sr34 + "\n[dgrad]\nw = { spec = \"mxfp4\", source = \"forward\" }")
                .find("r.toml:1: dgrad.w: source = \"forward\" of a +sr34 operand"),
            std::string::npos);
}

TEST(Recipe, an_unknown_name_lists_the_known_ones) {
  try {
    load_recipe("mxfp5");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("fp4-dge-occ"), std::string::npos);
  }
  EXPECT_THROW(load_recipe("missing.toml"), Error);
}

TEST(Recipe, the_last_matching_override_counts) {
  const Recipe r = parse_recipe(R"(
[fprop]
x = "mxfp4"
[[override]]
layers = "layers.*.attn.?"
[override.fprop]
x = "nvfp4"
[[override]]
layers = "layers.1.*"
[override.fprop]
x = "fp32"
)",
                                "r.toml");
  EXPECT_EQ(to_string(r.layer("layers.0.ffn.up")[kFpropX].spec), to_string(parse_quant_spec("mxfp4")));
  EXPECT_EQ(to_string(r.layer("layers.0.attn.q")[kFpropX].spec), to_string(parse_quant_spec("nvfp4")));
  EXPECT_TRUE(is_identity(r.layer("layers.1.attn.q")[kFpropX].spec));
}

TEST(Glob, star_is_any_run_and_question_mark_one_character) {
  EXPECT_TRUE(glob_match("layers.*.attn.?", "layers.12.attn.q"));
  EXPECT_FALSE(glob_match("layers.*.attn.?", "layers.12.attn.qk"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_FALSE(glob_match("?", ""));
}

ModelConfig tiny() {
  ModelConfig c;
  c.layers = 1;
  c.width = 64;
  c.context = 32;
  return resolved(c);
}

std::string graph_of(const std::string& toml) {
  StepOptions o;
  o.batch = 2;
  return to_text(build_training_step(tiny(), parse_recipe(toml, "r.toml"), o).graph);
}

struct Change {
  const char* key;
  const char* before;
  const char* after;
};

const Change kRecipeKeys[] = {
    Change{"activations", "", "activations = \"bf16\""},
    Change{"product", "[fprop]\nx = \"mxfp4\"\nw = \"mxfp4\"",
           "product = \"fake\"\n[fprop]\nx = \"mxfp4\"\nw = \"mxfp4\""},
    Change{"embedding", "", "embedding = \"e4m3:row:fp32\""},
    Change{"attention_q", "", "[attention]\nq = \"mxfp4\""},
    Change{"attention_k", "", "[attention]\nk = \"mxfp4\""},
    Change{"attention_v", "", "[attention]\nv = \"mxfp4\""},
    Change{"attention_p", "", "[attention]\np = \"mxfp4\""},
    Change{"fprop_x", "", "[fprop]\nx = \"mxfp4\""},
    Change{"fprop_w", "", "[fprop]\nw = \"mxfp4\""},
    Change{"dgrad_dy", "", "[dgrad]\ndy = \"mxfp4\""},
    Change{"dgrad_w", "", "[dgrad]\nw = \"mxfp4\""},
    Change{"wgrad_dy", "", "[wgrad]\ndy = \"mxfp4\""},
    Change{"wgrad_x", "", "[wgrad]\nx = \"mxfp4\""},
    Change{"estimator_w", "[fprop]\nw = \"mxfp4\"", "[fprop]\nw = { spec = \"mxfp4\", estimator = \"dge(5,3)\" }"},
    Change{"estimator_x", "[fprop]\nx = \"mxfp4\"", "[fprop]\nx = { spec = \"mxfp4\", estimator = \"soft(20)\" }"},
    Change{"source_w", "[fprop]\nw = \"mxfp4\"\n[dgrad]\nw = \"mxfp4\"",
           "[fprop]\nw = \"mxfp4\"\n[dgrad]\nw = { spec = \"mxfp4\", source = \"forward\" }"},
    Change{"source_x", "[fprop]\nx = \"mxfp4\"\n[wgrad]\nx = \"mxfp4\"",
           "[fprop]\nx = \"mxfp4\"\n[wgrad]\nx = { spec = \"mxfp4\", source = \"forward\" }"},
    Change{"override", "", "[[override]]\nlayers = \"layers.0.ffn.*\"\n[override.fprop]\nx = \"mxfp4\""},
    Change{"override_layers", "[[override]]\nlayers = \"layers.0.attn.*\"\n[override.fprop]\nx = \"mxfp4\"",
           "[[override]]\nlayers = \"layers.0.ffn.*\"\n[override.fprop]\nx = \"mxfp4\""},
    Change{"estimator_dsq", "[fprop]\nw = \"mxfp4\"", "[fprop]\nw = { spec = \"mxfp4\", estimator = \"dsq(0.2)\" }"},
    Change{"estimator_ewgs", "[fprop]\nw = \"mxfp4\"", "[fprop]\nw = { spec = \"mxfp4\", estimator = \"ewgs(0.1)\" }"},
    Change{"estimator_quest", "[fprop]\nw = \"mxfp4\"", "[fprop]\nw = { spec = \"mxfp4\", estimator = \"quest\" }"},
    Change{"estimator_soft_forward", "[fprop]\nw = { spec = \"mxfp4\", estimator = \"soft(20)\" }",
           "[fprop]\nw = { spec = \"mxfp4\", estimator = \"soft(beta=20,forward=soft)\" }"},
    Change{"fprop_sr34", "[fprop]\nw = \"mxfp4:sr8\"", "[fprop]\nw = \"mxfp4:sr8+sr34\""},
    Change{"dgrad_rounding", "[dgrad]\ndy = \"mxfp4:sr32\"", "[dgrad]\ndy = \"mxfp4:sr8\""},
};

class RecipeKey : public testing::TestWithParam<Change> {};

TEST_P(RecipeKey, changes_the_graph) { EXPECT_NE(graph_of(GetParam().before), graph_of(GetParam().after)); }

INSTANTIATE_TEST_SUITE_P(Table, RecipeKey, testing::ValuesIn(kRecipeKeys),
                         [](const auto& row) { return std::string(row.param.key); });

TEST(Recipe, every_key_is_in_the_table_but_name_and_description_which_are_printed) {
  // The words that an unknown key is answered with are all there are.
  const std::string message = error_of("a = 1"), known = "(known: ";
  std::string list = message.substr(message.find(known) + known.size());
  list.pop_back();
  std::stringstream keys(list);
  for (std::string key; std::getline(keys >> std::ws, key, ',');) {
    if (key == "name" || key == "description") continue;
    EXPECT_TRUE(std::any_of(std::begin(kRecipeKeys), std::end(kRecipeKeys), [&](const Change& c) {
      return std::string(c.key).starts_with(key);
    })) << key;
  }
  const Recipe r = parse_recipe("name = \"n\"\ndescription = \"d\"", "r.toml");
  EXPECT_EQ(r.name, "n");
  EXPECT_EQ(r.description, "d");
  EXPECT_EQ(graph_of("name = \"n\"\ndescription = \"d\""), graph_of(""));
  EXPECT_EQ(parse_recipe("", "r.toml").name, "r.toml") << "a recipe without a name has its file's";
}

TEST(Settings, config_toml_round_trips_every_row) {
  Settings s;
  s.data = "a \"quoted\\ file\".txt";
  s.seed = UINT64_MAX;
  s.schedule.lr = 0.1 + 0.2;
  s.val_fraction = 0;
  for (const std::string recipe : {"name = \"x\"\n", "", "a = '''x'''\r\n\t\x01"}) {
    const std::string text = to_toml(s, recipe);
    Settings back;
    EXPECT_EQ(from_toml(text, "c.toml", back), recipe);
    EXPECT_EQ(to_toml(back, recipe), text);
  }
}

TEST(Settings, a_relative_data_path_is_stored_absolute) {
  Settings s;
  s.data = "folder/../text.txt";
  check(s);
  EXPECT_EQ(s.data, (std::filesystem::current_path() / "text.txt").string());
  s.data.clear();
  check(s);
  EXPECT_EQ(s.data, "") << "the generated corpus";
}

TEST(Settings, a_wrong_config_is_one_clear_line) {
  const auto error = [](std::string text) {
    Settings s;
    try {
      from_toml(text, "c.toml", s);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("layers = \"four\""), "c.toml:1: layers has the wrong type");
  EXPECT_EQ(error("seed = \"99999999999999999999\""), "c.toml:1: seed must be decimal digits below 2^64");
  EXPECT_EQ(error("layerz = 4"), "c.toml:1: layerz is not a setting");
  EXPECT_NE(error("layers = ").find("c.toml:1"), std::string::npos);
  EXPECT_EQ(error(""), "c.toml: recipe is missing");
}

TEST(Settings, values_out_of_range_are_named) {
  Settings s;
  s.step.beta2 = 1.5;
  EXPECT_THROW(check(s), UsageError);
  s = Settings{};
  s.schedule.lr = std::nan("");
  EXPECT_THROW(check(s), UsageError);
  s = Settings{};
  s.step.batch = 0;
  EXPECT_THROW(check(s), UsageError);
}

TEST(Schedule, warms_up_linearly_and_ends_where_it_says) {
  Schedule s{"cosine", 1.0, 0.1, 100};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 1.0);
  EXPECT_NEAR(learning_rate(s, 99), 0.1, 1e-12);
  s.kind = "wsd";
  EXPECT_DOUBLE_EQ(learning_rate(s, 50), 1.0);
  EXPECT_NEAR(learning_rate(s, 99), 0.01, 1e-12);
  s.kind = "constant";
  EXPECT_DOUBLE_EQ(learning_rate(s, 99), 1.0);
  s.kind = "step";
  EXPECT_THROW(learning_rate(s, 0), UsageError);
}

}  // namespace
}  // namespace fp4sim::train
