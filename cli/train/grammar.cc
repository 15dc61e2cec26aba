#include "cli/train/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reference/contract/error.h"
#include "reference/contract/host_math.h"

namespace fp4sim::train {

Grammar::Grammar(std::vector<GrammarRule> rules)
    : rules_(std::move(rules)), prepared_(rules_.size()), expectations_(rules_.size()) {
  if (rules_.empty()) throw Error("grammar: no rules");
  std::vector<int> state(rules_.size(), 0);
  for (size_t rule = 0; rule < rules_.size(); ++rule) prepare(rule, state);
}

/// Depth-first over the rules that `rule` uses; state 1 marks the rules being expanded.
void Grammar::prepare(size_t rule, std::vector<int>& state) {
  const GrammarRule& source = rules_[rule];
  if (state[rule] == 2) return;
  if (state[rule] == 1) throw Error(fmt::format("grammar: rule `{}` contains itself", source.name));
  state[rule] = 1;
  Prepared& prepared = prepared_[rule];
  uint64_t total = 0;
  for (const GrammarAlternative& alternative : source.alternatives) {
    if (alternative.weight == 0 || alternative.symbols.empty())
      throw Error(fmt::format("grammar: rule `{}` has an empty alternative", source.name));
    total += alternative.weight;
    prepared.cumulative.push_back(static_cast<uint32_t>(total));
  }
  if (!std::has_single_bit(total) || total > (uint64_t{1} << 31))
    throw Error(fmt::format("grammar: the weights of rule `{}` sum to {}, not a power of two", source.name, total));
  prepared.bits = std::countr_zero(total);
  GrammarExpectation& expectation = expectations_[rule];
  for (size_t i = 0; i < source.alternatives.size(); ++i) {
    const GrammarAlternative& alternative = source.alternatives[i];
    const double p = static_cast<double>(alternative.weight) / static_cast<double>(total);
    prepared.surprise.push_back(-host_math::log64(p));
    double nats = prepared.surprise.back();
    double bytes = 0;
    for (const GrammarSymbol& symbol : alternative.symbols) {
      if (symbol.rule < 0) {
        bytes += static_cast<double>(symbol.text.size());
        continue;
      }
      const auto next = static_cast<size_t>(symbol.rule);
      prepare(next, state);
      nats += expectations_[next].nats;
      bytes += expectations_[next].bytes;
    }
    expectation.nats += p * nats;
    expectation.bytes += p * bytes;
    const GrammarSymbol& head = alternative.symbols.front();
    if (head.rule < 0) {
      prepared.first.push_back({head.text, static_cast<int>(i)});
    } else {
      for (const First& first : prepared_[static_cast<size_t>(head.rule)].first)
        prepared.first.push_back({first.text, static_cast<int>(i)});
    }
  }
  std::sort(prepared.first.begin(), prepared.first.end(),
            [](const First& a, const First& b) { return a.text < b.text; });
  check_first(rule);
  state[rule] = 2;
}

/// A prefix of any later text is, in sorted order, a prefix of the text right behind it.
void Grammar::check_first(size_t rule) const {
  const auto& first = prepared_[rule].first;
  for (size_t i = 0; i < first.size(); ++i) {
    const std::string& name = rules_[rule].name;
    if (first[i].text.empty()) throw Error(fmt::format("grammar: rule `{}` begins with an empty terminal", name));
    if (i > 0 && first[i].text.starts_with(first[i - 1].text))
      throw Error(fmt::format("grammar: in rule `{}`, `{}` and `{}` do not decide between alternatives", name,
                              first[i - 1].text, first[i].text));
  }
}

void Grammar::expand(size_t rule, const std::function<uint32_t()>& word, std::string& out) const {
  const Prepared& prepared = prepared_[rule];
  size_t choice = 0;
  if (prepared.bits > 0) {  // a rule with one alternative takes no random bits
    const uint32_t r = word() >> (32 - prepared.bits);
    choice = static_cast<size_t>(std::upper_bound(prepared.cumulative.begin(), prepared.cumulative.end(), r) -
                                 prepared.cumulative.begin());
  }
  for (const GrammarSymbol& symbol : rules_[rule].alternatives[choice].symbols) {
    if (symbol.rule < 0) {
      out += symbol.text;
    } else {
      expand(static_cast<size_t>(symbol.rule), word, out);
    }
  }
}

void Grammar::generate(const std::function<uint32_t()>& word, std::string& out) const { expand(0, word, out); }

size_t Grammar::parse(size_t rule, std::string_view text, size_t at, double& nats) const {
  const Prepared& prepared = prepared_[rule];
  const std::string_view rest = text.substr(at);
  auto decided = std::upper_bound(prepared.first.begin(), prepared.first.end(), rest,
                                  [](std::string_view key, const First& first) { return key < first.text; });
  if (decided == prepared.first.begin() || !rest.starts_with((--decided)->text))
    throw Error(fmt::format("text leaves the grammar at byte {} (rule `{}`)", at, rules_[rule].name));
  const auto choice = static_cast<size_t>(decided->alternative);
  nats += prepared.surprise[choice];
  for (const GrammarSymbol& symbol : rules_[rule].alternatives[choice].symbols) {
    if (symbol.rule >= 0) {
      at = parse(static_cast<size_t>(symbol.rule), text, at, nats);
    } else if (text.substr(at).starts_with(symbol.text)) {
      at += symbol.text.size();
    } else {
      throw Error(fmt::format("text leaves the grammar at byte {} (rule `{}`)", at, rules_[rule].name));
    }
  }
  return at;
}

double Grammar::nats_of(std::string_view text) const {
  double nats = 0;
  for (size_t at = 0; at < text.size();) at = parse(0, text, at, nats);
  return nats;
}

}  // namespace fp4sim::train
