// Whole numbers of the command line, checked: CLI11 itself would saturate what does not fit.
#pragma once

#include <charconv>
#include <string>

namespace fp4sim::cli {

/// Empty if the text is a whole number that T holds, else what is wrong: a validator for CLI11's Option::check.
template <class T>
std::string whole_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? "" : text + " is not a whole number in range";
}

}  // namespace fp4sim::cli
