// Constant attributes of a node: named integers, numbers and texts, printed in name order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace fp4sim {

using Attr = std::variant<int64_t, double, std::string>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, Attr>> items) : items_(items) {}

  void set(const std::string& name, Attr value) { items_[name] = std::move(value); }
  bool has(const std::string& name) const { return items_.contains(name); }
  /// Typed reads; a missing name or another type throws Error. A number may be read from an integer.
  int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  /// Reads with a default for an absent name.
  int64_t integer_or(const std::string& name, int64_t otherwise) const;

  const std::map<std::string, Attr>& items() const { return items_; }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const Attr& at(const std::string& name) const;
  std::map<std::string, Attr> items_;
};

/// "axis=last spec=mxfp4"; numbers in shortest round-trip form.
std::string to_string(const Attrs& attrs);

}  // namespace fp4sim
