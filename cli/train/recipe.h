// A recipe (training.md): what is quantized where, as data. One TOML file each; the built-in ones are in recipes/.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/estimator.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::train {

/// Where the value that a backward product quantizes comes from: the original, or what the forward product used.
enum class Source { master, forward };

/// One operand of one product.
struct Place {
  QuantSpec spec;                  // identity (fp32): not quantized
  Estimator estimator;             // fprop places only
  Source source = Source::master;  // dgrad.w and wgrad.x only
  friend bool operator==(const Place&, const Place&) = default;
};

/// The six operands of a linear layer's three products, in this order.
enum PlaceId { kFpropX, kFpropW, kDgradDy, kDgradW, kWgradDy, kWgradX, kPlaceCount };

struct PlaceRow {
  PlaceId id;
  const char* product;  // fprop | dgrad | wgrad: the table of the TOML file and the suffix of the node's name
  const char* operand;  // x | w | dy: the key and the operand's role
};
inline constexpr PlaceRow kPlaces[kPlaceCount] = {{kFpropX, "fprop", "x"},   {kFpropW, "fprop", "w"},
                                                  {kDgradDy, "dgrad", "dy"}, {kDgradW, "dgrad", "w"},
                                                  {kWgradDy, "wgrad", "dy"}, {kWgradX, "wgrad", "x"}};

using LayerRecipe = std::array<Place, kPlaceCount>;

struct LayerOverride {
  std::string pattern;  // glob over layer names: `head`, `layers.*.attn.?`
  LayerRecipe layer;
};

struct Recipe {
  std::string name;
  std::string description;
  bool bf16_activations = false;       // activations = "bf16": forward values are stored rounded to bf16
  bool product_exact = true;           // product = "exact" | "fake"
  QuantSpec embedding;                 // the table's rows before the lookup
  std::array<QuantSpec, 4> attention;  // q, k, v, p: operands of the attention products, forward, straight-through
  LayerRecipe linear;
  std::vector<LayerOverride> overrides;  // the last matching one counts
  std::string text;                      // the TOML it came from

  /// The recipe of a layer: the last override whose pattern matches, else `linear`.
  const LayerRecipe& layer(std::string_view name) const;
};

/// Parses a recipe; UsageError with the line, the key and what was expected. `origin` names the file in messages.
Recipe parse_recipe(std::string_view toml, const std::string& origin);

/// A built-in recipe by name, or the file if the text ends in .toml; UsageError listing the names, Error for a missing
/// file.
Recipe load_recipe(const std::string& name_or_file);

/// The built-in recipes' names, in listing order.
std::vector<std::string> recipe_names();

/// True if `text` matches the glob (`*` any run, `?` one character).
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace fp4sim::train
