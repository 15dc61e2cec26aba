// Command options made from the rows of train::Settings, and presets under them.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "cli/train/settings.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fp4sim::cli {

/// The options by setting name, to ask whether the user gave them, and the preset's name.
struct SettingOptions {
  std::map<std::string, CLI::Option*> options;
  std::shared_ptr<std::string> preset;
  CLI::Option* preset_option = nullptr;
  bool given(const std::string& name) const;
};

/// Adds one option for each named setting (all of them if `names` is empty) and --preset. `settings` must outlive the
/// parse.
SettingOptions add_setting_options(CLI::App& command, train::Settings& settings,
                                   std::initializer_list<std::string_view> names);

/// UsageError for an option that the model kind has no use for.
void check_given(const SettingOptions& given, const train::Settings& settings);

/// Sets what the preset gives and the user did not.
void apply_preset(const SettingOptions& given, train::Settings& settings);

}  // namespace fp4sim::cli
