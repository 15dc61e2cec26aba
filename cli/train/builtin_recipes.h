// The TOML files of recipes/, embedded by CMake.
#pragma once

#include <string_view>
#include <vector>

namespace fp4sim::train {

struct BuiltinRecipe {
  std::string_view name;
  std::string_view toml;
};

/// All recipes in listing order.
const std::vector<BuiltinRecipe>& builtin_recipes();

}  // namespace fp4sim::train
