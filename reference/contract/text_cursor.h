// A cursor over one line of user text whose errors name the column: shared by the spec and estimator parsers.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "reference/contract/error.h"

namespace fp4sim {

class TextCursor {
 public:
  /// `what` names the text in messages ("spec", "estimator").
  TextCursor(std::string what, std::string_view text) : what_(std::move(what)), text_(text) {}

  bool at_end() const { return position_ == text_.size(); }
  size_t position() const { return position_; }
  std::string_view rest() const { return text_.substr(position_); }

  /// True, and the token is consumed, if it comes next.
  bool accept(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    position_ += token.size();
    return true;
  }

  /// Consumes the token or fails with `expected`.
  void expect(std::string_view token, const std::string& expected) {
    if (!accept(token)) fail(expected);
  }

  /// The run of letters, digits, `_`, `-` and `.` that comes next; not consumed.
  std::string_view peek_word() const {
    size_t n = 0;
    while (n < rest().size() && is_word(rest()[n])) ++n;
    return rest().substr(0, n);
  }

  /// Consumes a decimal number into `value`; false, and nothing consumed, if there is none or it does not fit.
  template <class Number>
  bool accept_number(Number& value) {
    const char* first = rest().data();
    const auto [end, error] = std::from_chars(first, first + rest().size(), value);
    if (error != std::errc{}) return false;
    position_ += static_cast<size_t>(end - first);
    return true;
  }

  /// "spec `e2m1:b33`, column 6: expected …, got `b33`".
  [[noreturn]] void fail(const std::string& expected) const {
    const std::string_view word = peek_word().empty() ? rest().substr(0, 1) : peek_word();
    fail_at(position_, "expected " + expected + ", got " + (at_end() ? "the end" : "`" + std::string(word) + "`"));
  }

  [[noreturn]] void fail_at(size_t position, const std::string& message) const {
    throw UsageError(what_ + " `" + std::string(text_) + "`, column " + std::to_string(position + 1) + ": " + message);
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  }

  std::string what_;
  std::string_view text_;
  size_t position_ = 0;
};

/// The shortest decimal text that reads back as the same number.
inline std::string shortest_text(double value) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

}  // namespace fp4sim
