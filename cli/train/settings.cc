#include "cli/train/settings.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <type_traits>

#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

void in_range(const char* name, double value, double low, double high) {
  if (!(value >= low && value <= high))
    throw UsageError(fmt::format("{} must be between {} and {}, got {}", name, low, high, value));
}

// A whole number may stand for a number; nothing else is converted (toml++ would cast 1e46 to an integer).
template <class T>
void assign(T& to, const toml::node& node, const std::string& where) {
  const auto value = std::is_same_v<T, double> ? node.value<T>() : node.value_exact<T>();
  if (!value) throw UsageError(where + " has the wrong type");
  to = *value;
}

// TOML integers are signed 64-bit; seeds are unsigned and written as text.
void assign(uint64_t& to, const toml::node& node, const std::string& where) {
  const auto text = node.value<std::string>();
  if (!text) throw UsageError(where + " has the wrong type");
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), to);
  if (error != std::errc{} || end != text->data() + text->size())
    throw UsageError(where + " must be decimal digits below 2^64");
}

/// A TOML basic string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::vector<SettingRow> setting_rows(Settings& s) {
  return {
      {"recipe", &s.recipe, "what is quantized where: a built-in recipe's name or a .toml file"},
      {"model", &s.model.kind, "gpt or llama"},
      {"layers", &s.model.layers, "transformer layers"},
      {"heads", &s.model.heads, "attention heads"},
      {"kv-heads", &s.model.kv_heads, "key and value heads (llama; 0: as many as heads)"},
      {"width", &s.model.width, "width of the residual stream"},
      {"hidden", &s.model.hidden, "width of the feed-forward layer (0: 4·width for gpt, 8/3·width for llama)"},
      {"context", &s.model.context, "tokens a sequence"},
      {"vocab", &s.model.vocab, "token values; 256 for bytes"},
      {"tied-head", &s.model.tied_head, "the head is the embedding table (gpt: always)"},
      {"rope-style", &s.model.rope_style, "pairs of rotary positions: interleaved or half"},
      {"rope-theta", &s.model.rope_theta, "base of the rotary frequencies"},
      {"norm-eps", &s.model.norm_eps, "added to the variance by the norms"},
      {"data", &s.data, "a file of bytes to train on (default: the generated corpus with known entropy)"},
      {"corpus-bytes", &s.corpus_bytes, "length of the generated corpus"},
      {"val-fraction", &s.val_fraction, "last part of the data that is kept for validation"},
      {"batch", &s.step.batch, "sequences a micro-batch"},
      {"micro-batches", &s.step.micro_batches, "micro-batches a step, their gradients summed"},
      {"steps", &s.schedule.steps, "optimizer steps"},
      {"lr", &s.schedule.lr, "peak learning rate"},
      {"schedule", &s.schedule.kind, "constant, cosine (to 10 %) or wsd"},
      {"warmup", &s.schedule.warmup, "fraction of the steps with a rising learning rate"},
      {"weight-decay", &s.step.weight_decay, "AdamW's decoupled decay of the matrices"},
      {"beta1", &s.step.beta1, "AdamW"},
      {"beta2", &s.step.beta2, "AdamW"},
      {"eps", &s.step.eps, "AdamW"},
      {"clip", &s.clip, "largest gradient norm (0: no clipping)"},
      {"eval-every", &s.eval_every, "steps between evaluations (0: only at the end)"},
      {"eval-batches", &s.eval_batches, "batches of an evaluation on the way; the last one reads all windows"},
      {"save-every", &s.save_every, "steps between checkpoints (0: only at the end)"},
      {"seed", &s.seed, "initial weights, batches, stochastic rounding, the generated corpus"},
  };
}

std::string value_text(const SettingRow& row) {
  struct {
    std::string operator()(const std::string* v) const { return quoted(*v); }
    std::string operator()(const int64_t* v) const { return std::to_string(*v); }
    std::string operator()(const uint64_t* v) const { return fmt::format("\"{}\"", *v); }
    std::string operator()(const double* v) const {
      const std::string text = fmt::format("{}", *v);
      return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
  } print;
  return std::visit(print, row.value);
}

std::string to_toml(const Settings& settings, const std::string& recipe_text) {
  Settings copy = settings;
  std::string text = "# Everything needed to repeat the run: `fp4sim train --config` this file.\n";
  for (const SettingRow& row : setting_rows(copy)) text += fmt::format("{} = {}\n", row.name, value_text(row));
  return text + "\n# The recipe as it was.\nrecipe-text = " + quoted(recipe_text) + "\n";
}

std::string from_toml(std::string_view text, const std::string& origin, Settings& settings) {
  toml::table root;
  try {
    root = toml::parse(text, origin);
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("{}:{}: {}", origin, e.source().begin.line, e.description()));
  }
  std::string recipe_text;
  const std::vector<SettingRow> rows = setting_rows(settings);
  for (const auto& [key, node] : root) {
    const std::string where = fmt::format("{}:{}: {}", origin, node.source().begin.line, key.str());
    if (key.str() == "recipe-text") {
      assign(recipe_text, node, where);
      continue;
    }
    bool known = false;
    for (const SettingRow& row : rows) {
      if (key.str() != row.name) continue;
      known = true;
      std::visit([&, &value = node](auto* to) { assign(*to, value, where); }, row.value);
    }
    if (!known) throw UsageError(where + " is not a setting");
  }
  for (const SettingRow& row : rows)
    if (!root.contains(row.name)) throw UsageError(fmt::format("{}: {} is missing", origin, row.name));
  if (!root.contains("recipe-text")) throw UsageError(origin + ": recipe-text is missing");
  return recipe_text;
}

std::string absolute_data(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

void check(Settings& s) {
  s.model = resolved(s.model);
  s.data = absolute_data(s.data);
  in_range("batch", static_cast<double>(s.step.batch), 1, 1 << 20);
  in_range("micro-batches", static_cast<double>(s.step.micro_batches), 1, 4096);
  in_range("steps", static_cast<double>(s.schedule.steps), 0, 4294967295.0);
  in_range("weight-decay", s.step.weight_decay, 0, 1e3);
  in_range("beta1", s.step.beta1, 0, 0.999999999);
  in_range("beta2", s.step.beta2, 0, 0.999999999);
  in_range("eps", s.step.eps, 0, 1);
  in_range("norm-eps", s.model.norm_eps, 0, 1);
  in_range("rope-theta", s.model.rope_theta, 1, 1e12);
  in_range("clip", s.clip, 0, 1e30);
  in_range("val-fraction", s.val_fraction, 0, 0.9);
  in_range("eval-every", static_cast<double>(s.eval_every), 0, 4294967295.0);
  in_range("eval-batches", static_cast<double>(s.eval_batches), 1, 1e9);
  in_range("save-every", static_cast<double>(s.save_every), 0, 4294967295.0);
  in_range("corpus-bytes", static_cast<double>(s.corpus_bytes), 1, 1e9);
  if (s.model.rope_style != "interleaved" && s.model.rope_style != "half")
    throw UsageError("rope-style must be interleaved or half, got `" + s.model.rope_style + "`");
  const int64_t widest = std::max({s.model.width, s.model.hidden, s.model.vocab, s.model.heads * s.model.context});
  in_range("batch · context · the widest layer",
           static_cast<double>(s.step.batch) * static_cast<double>(s.model.context) * static_cast<double>(widest), 1,
           0x1p36);
  if (s.eval_every > 0 && s.val_fraction == 0)
    throw UsageError("eval-every needs validation data: val-fraction above 0");
  s.step.clip = s.clip > 0;
  learning_rate(s.schedule, 0);
}

}  // namespace fp4sim::train
