#include "reference/contract/attrs.h"

#include <fmt/format.h>

#include "reference/contract/error.h"

namespace fp4sim {

const Attr& Attrs::at(const std::string& name) const {
  const auto it = items_.find(name);
  if (it == items_.end()) throw Error("missing attribute `" + name + "`");
  return it->second;
}

int64_t Attrs::integer(const std::string& name) const {
  if (const auto* v = std::get_if<int64_t>(&at(name))) return *v;
  throw Error("attribute `" + name + "` is not an integer");
}

double Attrs::number(const std::string& name) const {
  const Attr& a = at(name);
  if (const auto* v = std::get_if<double>(&a)) return *v;
  if (const auto* v = std::get_if<int64_t>(&a)) return static_cast<double>(*v);
  throw Error("attribute `" + name + "` is not a number");
}

const std::string& Attrs::text(const std::string& name) const {
  if (const auto* v = std::get_if<std::string>(&at(name))) return *v;
  throw Error("attribute `" + name + "` is not a text");
}

int64_t Attrs::integer_or(const std::string& name, int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs.items()) {
    if (!text.empty()) text += ' ';
    text += name + '=';
    if (const auto* i = std::get_if<int64_t>(&value)) text += std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) text += fmt::format("{}", *d);
    if (const auto* s = std::get_if<std::string>(&value)) text += *s;
  }
  return text;
}

}  // namespace fp4sim
