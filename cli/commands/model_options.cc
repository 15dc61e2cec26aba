#include "cli/commands/model_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <type_traits>

#include "cli/commands/whole_number.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {

bool SettingOptions::given(const std::string& name) const {
  const auto it = options.find(name);
  return it != options.end() && it->second->count() > 0;
}

SettingOptions add_setting_options(CLI::App& command, train::Settings& settings,
                                   std::initializer_list<std::string_view> names) {
  SettingOptions result;
  result.preset = std::make_shared<std::string>("small");
  result.preset_option =
      command.add_option("--preset", *result.preset, "sizes: tiny, small, medium, …; options given beside it win")
          ->capture_default_str();
  for (const train::SettingRow& row : train::setting_rows(settings)) {
    if (names.size() != 0 && std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    result.options[row.name] = std::visit(
        [&](auto* value) {
          CLI::Option* option = command.add_option("--" + std::string(row.name), *value, row.help);
          using T = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) option->check(whole_number<T>);
          return option->capture_default_str()->take_last();
        },
        row.value);
  }
  return result;
}

void check_given(const SettingOptions& given, const train::Settings& settings) {
  if (settings.model.kind != "gpt") return;
  for (const char* name : {"rope-style", "rope-theta"})
    if (given.given(name)) throw UsageError(std::string("--") + name + " belongs to --model llama");
  if (given.given("tied-head") && !settings.model.tied_head)
    throw UsageError("--tied-head false: gpt's head is always tied");
}

void apply_preset(const SettingOptions& given, train::Settings& settings) {
  const train::Preset& preset = train::find_preset(*given.preset);
  const std::pair<const char*, int64_t> values[] = {
      {"layers", preset.layers}, {"heads", preset.heads},     {"kv-heads", preset.kv_heads}, {"width", preset.width},
      {"hidden", preset.hidden}, {"context", preset.context}, {"batch", preset.batch}};
  for (const train::SettingRow& row : train::setting_rows(settings))
    for (const auto& [name, value] : values)
      if (std::string_view(name) == row.name && !given.given(name)) *std::get<int64_t*>(row.value) = value;
}

}  // namespace fp4sim::cli
