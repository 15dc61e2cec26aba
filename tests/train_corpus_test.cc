// The embedded corpus: its analytic entropy against enumeration and against sampling, determinism, agreement.
#include "cli/train/corpus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <regex>
#include <set>

#include "cli/io/sha256.h"
#include "cli/train/language.h"
#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::train {
namespace {

using fp4sim::testing::error_of;

GrammarSymbol text(const char* t) { return {t, -1}; }
GrammarSymbol rule(int index) { return {"", index}; }

/// Sentences of a small grammar with a shared sub-rule: "a" | "b" X "!" | X "?" with X = "x" | "y" "z".
std::vector<GrammarRule> small_rules() {
  return {{"start", {{1, {text("a")}}, {2, {text("b"), rule(1), text("!")}}, {1, {rule(1), text("?")}}}},
          {"x", {{3, {text("x")}}, {1, {text("y"), text("z")}}}}};
}

TEST(Grammar, expectation_equals_the_sum_over_every_text) {
  const Grammar grammar(small_rules());
  // text, probability in sixteenths
  const std::pair<const char*, int> all[] = {{"a", 4}, {"bx!", 6}, {"byz!", 2}, {"x?", 3}, {"yz?", 1}};
  double nats = 0;
  double bytes = 0;
  for (const auto& [sentence, sixteenths] : all) {
    const double p = sixteenths / 16.0;
    EXPECT_NEAR(grammar.nats_of(sentence), -std::log(p), 1e-14) << sentence;
    nats -= p * std::log(p);
    bytes += p * static_cast<double>(std::string_view(sentence).size());
  }
  EXPECT_NEAR(grammar.expectation().nats, nats, 1e-14);
  EXPECT_NEAR(grammar.expectation().bytes, bytes, 1e-14);
}

TEST(Grammar, random_words_choose_by_weight_exactly) {
  const Grammar grammar(small_rules());
  const auto first_choice = [&](uint32_t r) {
    std::string out;
    bool used = false;
    grammar.generate([&] { return std::exchange(used, true) ? 0u : r; }, out);
    return out;
  };
  EXPECT_EQ(first_choice(0x3FFFFFFFu), "a");
  EXPECT_EQ(first_choice(0x40000000u), "bx!");
  EXPECT_EQ(first_choice(0xBFFFFFFFu), "bx!");
  EXPECT_EQ(first_choice(0xC0000000u), "x?");
}

TEST(Grammar, rules_that_hide_a_derivation_are_rejected) {
  const auto says = [](std::vector<GrammarRule> rules) { return error_of<Error>([&] { Grammar{rules}; }); };
  EXPECT_NE(says({{"s", {{1, {text("ab")}}, {1, {text("a")}}}}}).find("do not decide"), std::string::npos);
  EXPECT_NE(says({{"s", {{1, {text("a")}}, {1, {text("a"), text("b")}}}}}).find("do not decide"), std::string::npos);
  EXPECT_NE(says({{"s", {{1, {rule(1)}}, {1, {text("xy")}}}}, {"t", {{1, {text("x")}}}}}).find("do not decide"),
            std::string::npos);
  EXPECT_NE(says({{"s", {{1, {text("")}}}}}).find("empty terminal"), std::string::npos);
  EXPECT_NE(says({{"s", {{3, {text("a")}}}}}).find("power of two"), std::string::npos);
  EXPECT_NE(says({{"s", {{1, {}}}}}).find("empty alternative"), std::string::npos);
  EXPECT_NE(says({{"s", {}}}).find("power of two"), std::string::npos);
  EXPECT_NE(says({{"s", {{1, {text("a"), rule(0)}}}}}).find("contains itself"), std::string::npos);
  EXPECT_NE(says({}).find("no rules"), std::string::npos);
}

TEST(Corpus, the_measured_cross_entropy_of_the_true_source_is_the_analytic_entropy) {
  // X = nats − rate·bytes of a sentence has mean exactly 0; 5 standard errors around it over 200,000 sentences.
  const CorpusEntropy entropy = corpus_entropy();
  double sum = 0;
  double squares = 0;
  double bytes = 0;
  int64_t sentences = 0;
  const std::string all = corpus_text(2026, 6'000'000);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('.', begin) + 2;
    const std::string_view sentence = std::string_view(all).substr(begin, end - begin);
    const double x = corpus_nats(sentence) - entropy.nats_per_byte * static_cast<double>(sentence.size());
    sum += x;
    squares += x * x;
    bytes += static_cast<double>(sentence.size());
    ++sentences;
    begin = end;
  }
  const auto n = static_cast<double>(sentences);
  const double error = std::sqrt(squares / n / n);
  EXPECT_GT(sentences, 150000);
  EXPECT_LT(std::fabs(sum / n), 5 * error);
  EXPECT_LT(error, 0.03);
  EXPECT_NEAR(bytes / n, entropy.bytes_per_sentence, 0.2);
  EXPECT_NEAR(corpus_nats(all) / static_cast<double>(all.size()), entropy.nats_per_byte, 1e-3);
}

TEST(Corpus, the_entropy_is_where_recipes_can_differ) {
  EXPECT_GT(corpus_entropy().nats_per_byte, 0.8);
  EXPECT_LT(corpus_entropy().nats_per_byte, 1.2);
  EXPECT_LT(corpus_entropy().bytes_per_sentence, 64);
}

TEST(Corpus, a_seed_gives_the_same_bytes_on_every_machine) {
  EXPECT_EQ(io::sha256_hex(corpus_text(1, 1'000'000)),
            "74b7c4438e56c9c641c1f0edfdac833b119bcb6a9cde6121bc6998b13c24a2bf");
  EXPECT_EQ(io::sha256_hex(corpus_text(~uint64_t{0}, 1000)),
            "481283a589024927bc2740a751fa332e338a42c652c573f93e9c8659496d9735");
}

TEST(Corpus, a_longer_text_begins_with_the_shorter_one) {
  const std::string longer = corpus_text(5, 20000);
  const std::string shorter = corpus_text(5, 10000);
  EXPECT_GE(shorter.size(), 10000u);
  EXPECT_TRUE(longer.starts_with(shorter));
  EXPECT_FALSE(corpus_text(6, 10000).starts_with(shorter.substr(0, 100)));
}

TEST(Corpus, texts_outside_the_language_are_errors_with_the_byte) {
  const std::string good = corpus_text(1, 1);
  EXPECT_GT(corpus_nats(good), 0);
  EXPECT_EQ(corpus_nats(""), 0);
  EXPECT_NE(error_of<Error>([&] { corpus_nats(good + "?"); }).find("byte " + std::to_string(good.size())),
            std::string::npos);
  for (size_t length = 1; length < good.size(); ++length)
    EXPECT_NE(error_of<Error>([&] { corpus_nats(std::string_view(good).substr(0, length)); }), "") << length;
  EXPECT_NE(error_of<Error>([&] { corpus_nats("12+7=18. "); }), "");
  EXPECT_NEAR(corpus_nats("12+7=19. "), -std::log(3.0 / 16 / 4096 * 3 / 4), 1e-12);
  EXPECT_NE(error_of<UsageError>([&] { corpus_text(1, 0); }), "");
}

TEST(Corpus, sums_are_right_and_verbs_agree_with_their_subject_across_relative_clauses) {
  const std::string all = corpus_text(3, 300000);
  const std::regex sum(R"((\d+)([+-])(\d+)=(\d+)\.)");
  int sums = 0;
  for (std::sregex_iterator it(all.begin(), all.end(), sum), none; it != none; ++it, ++sums) {
    const int a = std::stoi((*it)[1]);
    const int b = std::stoi((*it)[3]);
    EXPECT_EQ((*it)[2] == "+" ? a + b : a - b, std::stoi((*it)[4]));
  }
  EXPECT_GT(sums, 1000);
  // determiner, perhaps an adjective, noun, a relative clause without another inside, verb
  const std::regex agreement(
      R"((^|[.] |[.]\n)(lo|ta|mi|se|ru|ka|ne|vi) (?:\w+[oy] )?\w+([ai]) \([^()]+\) \w+([eu])\b)");
  int clauses = 0;
  for (std::sregex_iterator it(all.begin(), all.end(), agreement), none; it != none; ++it, ++clauses) {
    const bool singular = std::set<std::string>{"lo", "ta", "mi", "se"}.contains((*it)[2]);
    EXPECT_EQ((*it)[3], singular ? "a" : "i") << it->str();
    EXPECT_EQ((*it)[4], singular ? "e" : "u") << it->str();
  }
  EXPECT_GT(clauses, 1000);
}

}  // namespace
}  // namespace fp4sim::train
