// Stochastic grammars whose text reveals its derivation, so that the entropy of the text is the entropy of the choices.
// Every alternative of a rule begins with terminals that no other alternative of that rule begins with, and none of
// these is a prefix of another: reading from the left, each choice is decided by the bytes that follow. Rules do not
// recurse.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fp4sim::train {

/// A terminal's bytes, or the index of a rule.
struct GrammarSymbol {
  std::string text;
  int rule = -1;  // ≥ 0: a rule, and text is empty
};

/// Probability weight / (sum of the rule's weights).
struct GrammarAlternative {
  uint32_t weight = 0;
  std::vector<GrammarSymbol> symbols;
};

struct GrammarRule {
  std::string name;
  std::vector<GrammarAlternative> alternatives;  // weights sum to a power of two: 32 random bits choose exactly
};

/// Expected natural-log surprise and length of one expansion.
struct GrammarExpectation {
  double nats = 0;
  double bytes = 0;
  double nats_per_byte() const { return nats / bytes; }
};

class Grammar {
 public:
  /// Checks the properties above and throws Error naming the rule that lacks one. The first rule is the start.
  explicit Grammar(std::vector<GrammarRule> rules);

  /// Exact values of the start rule, from the rules alone: nats(rule) = Σ p·(−log p + Σ nats(symbols)), bytes likewise.
  GrammarExpectation expectation() const { return expectations_[0]; }

  /// Appends one expansion of the start rule; `word` gives 32 uniform random bits a call, one call a choice.
  void generate(const std::function<uint32_t()>& word, std::string& out) const;

  /// −log of the probability of the text in nats; the text is a whole number of expansions of the start rule. Throws
  /// Error with the byte where the text leaves the grammar.
  double nats_of(std::string_view text) const;

  const std::vector<GrammarRule>& rules() const { return rules_; }

 private:
  /// A terminal that an expansion may begin with and the alternative it decides.
  struct First {
    std::string_view text;
    int alternative;
  };
  struct Prepared {
    int bits = 0;                      // the weights sum to 2^bits
    std::vector<uint32_t> cumulative;  // exclusive upper ends
    std::vector<double> surprise;      // −log p of each alternative, nats
    std::vector<First> first;          // ascending by text
  };

  void prepare(size_t rule, std::vector<int>& state);
  void check_first(size_t rule) const;
  void expand(size_t rule, const std::function<uint32_t()>& word, std::string& out) const;
  size_t parse(size_t rule, std::string_view text, size_t at, double& nats) const;

  std::vector<GrammarRule> rules_;
  std::vector<Prepared> prepared_;
  std::vector<GrammarExpectation> expectations_;
};

}  // namespace fp4sim::train
