#include "cli/train/recipe.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/train/builtin_recipes.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

constexpr const char* kAttentionKeys[] = {"q", "k", "v", "p"};

/// Reads tables strictly: every key must be known; messages carry file, line and key.
class Reader {
 public:
  explicit Reader(const std::string& origin) : origin_(origin) {}

  [[noreturn]] void fail(const toml::node& at, const std::string& what) const {
    throw UsageError(fmt::format("{}:{}: {}", origin_, at.source().begin.line, what));
  }

  void only(const toml::table& table, const std::string& where, std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, node] : table)
      if (std::find(keys.begin(), keys.end(), key.str()) == keys.end()) {
        std::string known;
        for (const std::string_view k : keys) known += (known.empty() ? "" : ", ") + std::string(k);
        fail(node, fmt::format("unknown key `{}` in {} (known: {})", key.str(), where, known));
      }
  }

  const toml::table& table(const toml::node& node, const std::string& key) const {
    if (!node.is_table()) fail(node, key + " must be a table");
    return *node.as_table();
  }

  std::string text(const toml::node& node, const std::string& key) const {
    const auto value = node.value<std::string>();
    if (!node.is_string() || !value) fail(node, key + " must be a text");
    return *value;
  }

  /// The value of a choice of two: false for the first word, true for the second.
  bool choice(const toml::node& node, const std::string& key, const char* no, const char* yes) const {
    const std::string value = text(node, key);
    if (value == no) return false;
    if (value == yes) return true;
    fail(node, fmt::format("{} must be `{}` or `{}`, got `{}`", key, no, yes, value));
  }

  QuantSpec spec(const toml::node& node, const std::string& key) const {
    try {
      QuantSpec spec = parse_quant_spec(text(node, key));
      require_computable(spec);
      return spec;
    } catch (const UsageError& e) {
      fail(node, fmt::format("{}: {}", key, e.what()));
    }
  }

  Estimator estimator(const toml::node& node, const std::string& key) const {
    try {
      return parse_estimator(text(node, key));
    } catch (const UsageError& e) {
      fail(node, fmt::format("{}: {}", key, e.what()));
    }
  }

  Place place(const toml::node& node, const PlaceRow& row) const {
    const std::string key = fmt::format("{}.{}", row.product, row.operand);
    Place place;
    if (node.is_string()) {
      place.spec = spec(node, key);
      return place;
    }
    const toml::table& t = table(node, key);
    only(t, key, {"spec", "estimator", "source"});
    if (!t.contains("spec")) fail(node, key + " needs a spec");
    place.spec = spec(*t.get("spec"), key + ".spec");
    if (const toml::node* e = t.get("estimator")) {
      if (row.id > kFpropW) fail(*e, key + ": an estimator belongs to an operand of fprop");
      place.estimator = estimator(*e, key + ".estimator");
      if (place.estimator.kind != EstimatorKind::ste && place.spec.element.bits > 8)
        fail(*e, fmt::format("{}: {} needs an element format of at most 8 bits", key, to_string(place.estimator)));
    }
    if (const toml::node* s = t.get("source")) {
      if (row.id != kDgradW && row.id != kWgradX) fail(*s, key + ": source belongs to dgrad.w and wgrad.x");
      place.source = choice(*s, key + ".source", "master", "forward") ? Source::forward : Source::master;
    }
    return place;
  }

  /// Reads fprop, dgrad and wgrad of a table into `layer`; absent operands stay as they are.
  void layer(const toml::table& t, LayerRecipe& layer) const {
    for (const char* product : {"fprop", "dgrad", "wgrad"}) {
      const toml::node* node = t.get(product);
      if (node == nullptr) continue;
      const toml::table& operands = table(*node, product);
      for (const auto& [key, value] : operands) {
        const auto row = std::find_if(std::begin(kPlaces), std::end(kPlaces), [&, k = key.str()](const PlaceRow& p) {
          return std::string_view(p.product) == product && k == p.operand;
        });
        if (row == std::end(kPlaces)) fail(value, fmt::format("unknown operand `{}` of {}", key.str(), product));
        layer[row->id] = place(value, *row);
      }
    }
  }

 private:
  const std::string& origin_;
};

/// What a product's two operands must agree on (numerics.md §6).
void check_product(const Reader& reader, const toml::node& at, const std::string& product, const QuantSpec& a,
                   const QuantSpec& b) {
  if (!(a.hadamard == b.hadamard)) reader.fail(at, product + ": both operands need the same +had");
  if (a.occ.enabled && b.occ.enabled) reader.fail(at, product + ": a product of two +occ operands is not defined");
  if ((a.occ.enabled && b.sr34) || (a.sr34 && b.occ.enabled))
    reader.fail(at, product + ": a product of a +occ operand with a +sr34 operand is not defined");
}

void check_layer(const Reader& reader, const toml::node& at, const LayerRecipe& layer) {
  const std::pair<PlaceId, PlaceId> products[] = {{kFpropX, kFpropW}, {kDgradDy, kDgradW}, {kWgradDy, kWgradX}};
  for (const auto& [a, b] : products) {
    check_product(reader, at, kPlaces[a].product, layer[a].spec, layer[b].spec);
  }
  for (const auto& [backward, forward] : {std::pair{kDgradW, kFpropW}, {kWgradX, kFpropX}}) {
    if (layer[backward].source != Source::forward) continue;
    const QuantSpec& used = layer[forward].spec;
    // A rotated value is in another domain; a decoded sr34 value is 3/4 of the original, the product makes up for it.
    const char* what = used.hadamard.n != 0 ? "a rotated operand (+had)" : used.sr34 ? "a +sr34 operand" : nullptr;
    if (what != nullptr)
      reader.fail(at, fmt::format("{}.{}: source = \"forward\" of {} is not defined", kPlaces[backward].product,
                                  kPlaces[backward].operand, what));
  }
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  // Only the last `*` is ever widened: an earlier one that took more would find nothing that it does not.
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

const LayerRecipe& Recipe::layer(std::string_view layer_name) const {
  const LayerRecipe* found = &linear;
  for (const LayerOverride& o : overrides)
    if (glob_match(o.pattern, layer_name)) found = &o.layer;
  return *found;
}

Recipe parse_recipe(std::string_view toml_text, const std::string& origin) {
  toml::table root;
  try {
    root = toml::parse(toml_text, origin);
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("{}:{}: {}", origin, e.source().begin.line, e.description()));
  }
  const Reader reader(origin);
  reader.only(root, "the recipe",
              {"name", "description", "activations", "product", "embedding", "attention", "fprop", "dgrad", "wgrad",
               "override"});
  Recipe recipe;
  recipe.text = std::string(toml_text);
  const auto with = [&](const char* key, auto&& read) {
    if (const toml::node* node = root.get(key)) read(*node);
  };
  with("name", [&](const toml::node& n) { recipe.name = reader.text(n, "name"); });
  with("description", [&](const toml::node& n) { recipe.description = reader.text(n, "description"); });
  with("activations",
       [&](const toml::node& n) { recipe.bf16_activations = reader.choice(n, "activations", "fp32", "bf16"); });
  with("product", [&](const toml::node& n) { recipe.product_exact = reader.choice(n, "product", "fake", "exact"); });
  with("embedding", [&](const toml::node& n) {
    recipe.embedding = reader.spec(n, "embedding");
    if (recipe.embedding.hadamard.n != 0 || recipe.embedding.occ.enabled || recipe.embedding.sr34)
      reader.fail(n, "embedding: +had, +occ and +sr34 belong to operands of products");
  });
  with("attention", [&](const toml::node& n) {
    const toml::table& t = reader.table(n, "attention");
    reader.only(t, "attention", {"q", "k", "v", "p"});
    for (size_t i = 0; i < 4; ++i)
      if (const toml::node* spec = t.get(kAttentionKeys[i]))
        recipe.attention[i] = reader.spec(*spec, std::string("attention.") + kAttentionKeys[i]);
    check_product(reader, n, "attention q, k", recipe.attention[0], recipe.attention[1]);
    check_product(reader, n, "attention v, p", recipe.attention[2], recipe.attention[3]);
  });
  reader.layer(root, recipe.linear);
  check_layer(reader, root, recipe.linear);
  with("override", [&](const toml::node& n) {
    if (!n.is_array_of_tables()) reader.fail(n, "override must be an array of tables ([[override]])");
    for (const toml::node& item : *n.as_array()) {
      const toml::table& t = *item.as_table();
      reader.only(t, "override", {"layers", "fprop", "dgrad", "wgrad"});
      if (!t.contains("layers")) reader.fail(item, "override needs `layers`, a pattern such as \"layers.0.*\"");
      LayerOverride o{reader.text(*t.get("layers"), "layers"), recipe.linear};
      reader.layer(t, o.layer);
      check_layer(reader, item, o.layer);
      recipe.overrides.push_back(std::move(o));
    }
  });
  if (recipe.name.empty()) recipe.name = origin;
  return recipe;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const BuiltinRecipe& r : builtin_recipes()) names.emplace_back(r.name);
  return names;
}

Recipe load_recipe(const std::string& name_or_file) {
  for (const BuiltinRecipe& r : builtin_recipes())
    if (name_or_file == r.name) return parse_recipe(r.toml, name_or_file);
  if (!name_or_file.ends_with(".toml")) {
    std::string names;
    for (const std::string& n : recipe_names()) names += (names.empty() ? "" : ", ") + n;
    throw UsageError("unknown recipe `" + name_or_file + "` (a .toml file, or one of: " + names + ")");
  }
  std::ifstream file(name_or_file, std::ios::binary);
  if (!file) throw Error("cannot read the recipe " + name_or_file);
  std::stringstream text;
  text << file.rdbuf();
  return parse_recipe(text.str(), name_or_file);
}

}  // namespace fp4sim::train
