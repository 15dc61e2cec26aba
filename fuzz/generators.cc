#include "fuzz/generators.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "fuzz/case_builder.h"
#include "fuzz/elements.h"
#include "fuzz/specs.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

const std::array<OpGenerator, kOpCount>& generator_table() {
  static const std::array<OpGenerator, kOpCount> table = [] {
    std::array<OpGenerator, kOpCount> rows{};
    for (const auto& group : {product_generators(), quantization_generators(), tensor_generators(), row_generators()})
      for (const OpGenerator& row : group) rows[static_cast<size_t>(row.op)] = row;
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i].build == nullptr) throw Error(std::string("no generator for op ") + kOps[i].name);
    return rows;
  }();
  return table;
}

/// An integer, a number or a text, whichever the word is.
Attr parse_value(const std::string& word) {
  char* end = nullptr;
  const long long integer = std::strtoll(word.c_str(), &end, 10);
  if (!word.empty() && *end == '\0') return static_cast<int64_t>(integer);
  const double number = std::strtod(word.c_str(), &end);
  if (!word.empty() && *end == '\0') return number;
  return word;
}

uint64_t parse_seed(const std::string& word) {
  char* end = nullptr;
  const uint64_t seed = std::strtoull(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0') throw UsageError("seed must be an integer, got `" + word + "`");
  return seed;
}

}  // namespace

std::string to_string(const CaseParameters& p) {
  const std::string args = to_string(p.args);
  return fmt::format("{} dist={} seed={}{}{}", op_name(p.op), p.distribution, p.seed, args.empty() ? "" : " ", args);
}

CaseParameters parse_parameters(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word)) throw UsageError("an empty line is no case");
  CaseParameters p;
  p.op = parse_op(word);
  while (words >> word) {
    const size_t at = word.find('=');
    if (at == std::string::npos) throw UsageError("case parameters are NAME=VALUE, got `" + word + "`");
    const std::string name = word.substr(0, at), value = word.substr(at + 1);
    if (name == "dist")
      p.distribution = find_distribution(value).name;
    else if (name == "seed")
      p.seed = parse_seed(value);
    else
      p.args.set(name, parse_value(value));
  }
  return p;
}

CaseParameters draw_case(Op op, uint64_t seed) {
  Dice dice(seed, op_name(op));
  CaseParameters p;
  p.op = op;
  p.seed = seed;
  const auto& table = distributions();
  p.distribution = table[static_cast<size_t>(dice.below(static_cast<int64_t>(table.size())))].name;
  generator_table()[static_cast<size_t>(op)].draw(dice, p.args);
  return p;
}

Case build_case(const CaseParameters& p, Backend& maker) {
  CaseBuilder builder(p, maker);
  generator_table()[static_cast<size_t>(p.op)].build(p.args, builder);
  Case c = builder.finish();
  (void)output_types(c);  // a generator that makes an invalid node is found here
  return c;
}

std::vector<CaseParameters> simpler_cases(const CaseParameters& p) {
  std::vector<CaseParameters> simpler;
  for (const auto& [name, value] : p.args.items()) {
    const auto offer = [&, key = name](Attr other) {
      simpler.push_back(p);
      simpler.back().args.set(key, std::move(other));
    };
    if (const auto* size = std::get_if<int64_t>(&value); size != nullptr && is_size(name)) {
      if (*size > 2) offer(*size / 2);
      if (*size > 1) offer(int64_t{1}), offer(*size - 1);
      if (*size == 1 && name == "batch") offer(int64_t{0});
    }
    if (const auto* flag = std::get_if<int64_t>(&value); flag != nullptr && name == "amax" && *flag != 0)
      offer(int64_t{0});
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && is_spec(name) && *text != "f32") {
      if (*text != "bf16")
        for (const std::string& spec : simpler_specs(*text)) offer(spec);
    }
  }
  if (p.distribution != distributions().front().name)
    for (const char* plain : {"bell", "half_integers"}) {
      simpler.push_back(p);
      simpler.back().distribution = plain;
    }
  return simpler;
}

}  // namespace fp4sim::fuzz
