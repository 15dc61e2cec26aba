#include "cli/train/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"

namespace fp4sim::train {
namespace {

constexpr uint64_t kLanguageSeed = 4;
constexpr uint32_t kLexiconTotal = 1u << 16;
constexpr int kClasses = 4;
constexpr int kMaxDepth = 2;  // of relative clauses

/// Draws word stems: no stem is a prefix of another, so no inflected form is either.
class StemMaker {
 public:
  /// `count` new stems; the first, most frequent ones are the shortest.
  std::vector<std::string> make(int count) {
    std::vector<std::string> stems;
    for (int i = 0; i < count; ++i) {
      const uint32_t syllables = i < count / 2 ? 1 : 1 + next() % 2;
      std::string stem = draw(syllables);
      while (clashes(stem)) stem = draw(syllables);
      used_.push_back(stem);
      stems.push_back(stem);
    }
    return stems;
  }

 private:
  uint32_t next() {
    const host_math::Words words = host_math::philox(kLanguageSeed, drawn_ / 4, stream_of("corpus/words"), 0);
    return words.w[drawn_++ % 4];
  }
  char pick(std::string_view letters) { return letters[next() % letters.size()]; }
  std::string draw(uint32_t syllables) {
    std::string stem;
    for (uint32_t i = 0; i < syllables; ++i) {
      stem += pick("bdfgklmnprstvz");
      stem += pick("aeiou");
    }
    return stem + pick("bdfklmnprstv");
  }
  bool clashes(const std::string& stem) const {
    return std::any_of(used_.begin(), used_.end(),
                       [&](const std::string& other) { return other.starts_with(stem) || stem.starts_with(other); });
  }

  uint64_t drawn_ = 0;
  std::vector<std::string> used_;
};

/// Integer weights proportional to 1/(rank + 6), rank from 0, summing to kLexiconTotal; the first takes the remainder.
std::vector<uint32_t> zipf_weights(size_t count) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) total += (uint64_t{1} << 40) / (i + 6);
  std::vector<uint32_t> weights;
  uint32_t rest = kLexiconTotal;
  for (size_t i = 0; i < count; ++i) {
    weights.push_back(static_cast<uint32_t>((uint64_t{1} << 40) / (i + 6) * kLexiconTotal / total));
    rest -= weights.back();
  }
  weights.front() += rest;
  return weights;
}

/// Collects rules by name. In a right-hand side, <name> is a rule and everything else is text.
class RuleBook {
 public:
  void add(const std::string& rule, uint32_t weight, const std::string& right) {
    const auto left =
        static_cast<size_t>(index(rule));  // before the right-hand side: the first rule added is the start
    GrammarAlternative alternative{weight, {}};
    for (size_t at = 0; at < right.size();) {
      const bool is_rule = right[at] == '<';
      const size_t end = is_rule ? right.find('>', at) : std::min(right.find('<', at), right.size());
      if (is_rule) {
        alternative.symbols.push_back({"", index(right.substr(at + 1, end - at - 1))});
      } else {
        alternative.symbols.push_back({right.substr(at, end - at), -1});
      }
      at = end + (is_rule ? 1 : 0);
    }
    rules_[left].alternatives.push_back(std::move(alternative));
  }

  void add_words(const std::string& rule, const std::string& before, const std::vector<std::string>& stems,
                 const std::string& ending) {
    const std::vector<uint32_t> weights = zipf_weights(stems.size());
    for (size_t i = 0; i < stems.size(); ++i) add(rule, weights[i], before + stems[i] + ending);
  }

  std::vector<GrammarRule> take() { return std::move(rules_); }

 private:
  int index(const std::string& name) {
    const auto [at, added] = index_.try_emplace(name, static_cast<int>(rules_.size()));
    if (added) rules_.push_back({name, {}});
    return at->second;
  }

  std::map<std::string, int> index_;
  std::vector<GrammarRule> rules_;
};

/// s singular, p plural, with the probability of each in sixteenths and the endings that mark it.
struct Number {
  const char* name;
  uint32_t weight;
  std::array<const char*, 4> determiners;
  const char* noun;
  const char* adjective;
  const char* verb;
};
constexpr Number kNumbers[] = {{"s", 10, {"lo", "ta", "mi", "se"}, "a", "o", "e"},
                               {"p", 6, {"ru", "ka", "ne", "vi"}, "i", "y", "u"}};

/// Sixteenths of the four noun classes; row g of kObjectClasses is for objects of verb group g.
using ClassWeights = std::array<uint32_t, kClasses>;
constexpr ClassWeights kAnyClass = {4, 4, 4, 4};
constexpr ClassWeights kObjectClasses[kClasses] = {{2, 10, 2, 2}, {2, 2, 10, 2}, {2, 2, 2, 10}, {10, 2, 2, 2}};

void add_lexicon(RuleBook& book) {
  StemMaker maker;
  for (const Number& n : kNumbers)
    book.add_words(fmt::format("det.{}", n.name), "", {n.determiners.begin(), n.determiners.end()}, " ");
  for (int c = 0; c < kClasses; ++c) {
    const auto nouns = maker.make(64);
    const auto verbs = maker.make(32);
    for (const Number& n : kNumbers) {
      book.add_words(fmt::format("noun.{}.{}", n.name, c), "", nouns, n.noun);
      book.add_words(fmt::format("act.{}.{}", n.name, c), "", verbs, n.verb);
    }
  }
  const auto states = maker.make(40);
  const auto adjectives = maker.make(40);
  for (const Number& n : kNumbers) {
    book.add_words(fmt::format("state.{}", n.name), "", states, n.verb);
    book.add_words(fmt::format("adj.{}", n.name), "", adjectives, n.adjective);
  }
  book.add_words("adverb", " ", maker.make(24), "");
  book.add_words("prep", " ", maker.make(6), " ");
}

/// A noun phrase behind its determiner: a noun, in a quarter of the cases behind an adjective. `then(c)` is what
/// follows a noun of class c.
template <class Then>
void add_noun(RuleBook& book, const std::string& rule, const Number& n, const ClassWeights& weights, Then then) {
  const std::string bare = rule + ".bare";
  book.add(rule, 16, fmt::format("<adj.{}> <{}>", n.name, bare));
  for (int c = 0; c < kClasses; ++c) {
    const uint32_t weight = weights[static_cast<size_t>(c)];
    const std::string right = fmt::format("<noun.{}.{}>{}", n.name, c, then(c));
    book.add(rule, 3 * weight, right);
    book.add(bare, weight, right);
  }
}

/// What a clause at `depth` ends with: the sentence's dot or the relative clause's parenthesis.
const char* end_of(int depth) { return depth == 0 ? "." : ")"; }

/// A verb that agrees in number, usually of the subject's class, with an object; or an intransitive one.
void add_predicates(RuleBook& book, int depth) {
  for (const Number& n : kNumbers) {
    for (int c = 0; c < kClasses; ++c) {
      const std::string rule = fmt::format("predicate.{}.{}.{}", n.name, c, depth);
      book.add(rule, 4, fmt::format("<state.{}><tail.{}>", n.name, depth));
      for (int g = 0; g < kClasses; ++g)
        book.add(rule, g == c ? 9 : 1, fmt::format("<act.{}.{}> <object.{}.{}>", n.name, g, g, depth));
    }
  }
  const std::string tail = fmt::format("tail.{}", depth);
  book.add(tail, 11, end_of(depth));
  book.add(tail, 5, fmt::format("<adverb>{}", end_of(depth)));
}

/// The object of a verb of group g, with what may follow it: a place, or a relative clause about it.
void add_objects(RuleBook& book, int depth) {
  const char* end = end_of(depth);
  for (const Number& n : kNumbers) {
    for (int g = 0; g < kClasses; ++g) {
      const std::string thing = fmt::format("thing.{}.{}.{}", n.name, g, depth);
      book.add(fmt::format("object.{}.{}", g, depth), n.weight, fmt::format("<det.{}><{}>", n.name, thing));
      add_noun(book, thing, n, kObjectClasses[g],
               [&](int c) { return fmt::format("<end.{}.{}.{}>", n.name, c, depth); });
    }
    for (int c = 0; c < kClasses; ++c) {
      const std::string rule = fmt::format("end.{}.{}.{}", n.name, c, depth);
      const bool nests = depth < kMaxDepth;
      book.add(rule, nests ? 11 : 13, end);
      book.add(rule, 3, fmt::format("<prep><place>{}", end));
      if (nests) book.add(rule, 2, fmt::format(" (<relative.{}.{}.{}>{}", n.name, c, depth + 1, end));
    }
  }
}

/// "sa" + what the noun does, or "om" + who does something to it.
void add_relatives(RuleBook& book, int depth) {
  for (const Number& n : kNumbers) {
    for (int c = 0; c < kClasses; ++c) {
      const std::string rule = fmt::format("relative.{}.{}.{}", n.name, c, depth);
      book.add(rule, 11, fmt::format("sa <predicate.{}.{}.{}>", n.name, c, depth));
      book.add(rule, 5, "om <agent>)");
    }
  }
}

void add_sentences(RuleBook& book) {
  book.add("sentence", 13, "<clause><gap>");
  book.add("sentence", 3, "<sum>.<gap>");
  book.add("gap", 3, " ");
  book.add("gap", 1, "\n");
  for (const Number& n : kNumbers) {
    const auto phrase = [&](const char* name) { return fmt::format("<det.{}><{}.{}>", n.name, name, n.name); };
    book.add("clause", n.weight, phrase("subject"));
    book.add("place", n.weight, phrase("site"));
    book.add("agent", n.weight, phrase("actor"));
    add_noun(book, fmt::format("subject.{}", n.name), n, kAnyClass,
             [&](int c) { return fmt::format(" <after.{}.{}>", n.name, c); });
    add_noun(book, fmt::format("site.{}", n.name), n, kAnyClass, [](int) { return ""; });
    add_noun(book, fmt::format("actor.{}", n.name), n, kAnyClass,
             [&](int c) { return fmt::format(" <deed.{}.{}>", n.name, c); });
    for (int c = 0; c < kClasses; ++c) {
      const std::string after = fmt::format("after.{}.{}", n.name, c);
      const std::string predicate = fmt::format("<predicate.{}.{}.0>", n.name, c);
      book.add(after, 11, predicate);
      book.add(after, 5, fmt::format("(<relative.{}.{}.1> {}", n.name, c, predicate));
      for (int g = 0; g < kClasses; ++g)
        book.add(fmt::format("deed.{}.{}", n.name, c), g == c ? 13 : 1, fmt::format("<act.{}.{}>", n.name, g));
    }
  }
}

/// a+b=c with a in 1 … 64 and its inverse c-b=a, b in 1 … 32, all equally likely.
void add_sums(RuleBook& book) {
  for (int a = 1; a <= 64; ++a) {
    for (int b = 1; b <= 32; ++b) {
      book.add("sum", 1, fmt::format("{}+{}={}", a, b, a + b));
      book.add("sum", 1, fmt::format("{}-{}={}", a + b, b, a));
    }
  }
}

}  // namespace

Grammar corpus_language() {
  RuleBook book;
  add_sentences(book);
  for (int depth = 0; depth <= kMaxDepth; ++depth) {
    add_predicates(book, depth);
    add_objects(book, depth);
    if (depth > 0) add_relatives(book, depth);
  }
  add_sums(book);
  add_lexicon(book);
  return Grammar(book.take());
}

}  // namespace fp4sim::train
