// A recipe and a run's config.toml: both are TOML from outside.
#include "cli/train/recipe.h"
#include "cli/train/settings.h"
#include "fuzz/parsers/target.h"

FP4SIM_PARSER_TARGET(recipe) {
  accept_error(
      [](std::string_view text) {
        train::Settings settings;
        train::from_toml(text, "config.toml", settings);
        train::check(settings);
      },
      input);
  const train::Recipe recipe = train::parse_recipe(input, "recipe.toml");
  for (const char* layer : {"head", "layers.0.attn.q", "layers.11.ffn.down"}) recipe.layer(layer);
}
