// The text form of estimators (numerics.md §5): defaults, named and positional parameters, errors with their column.
#include "reference/contract/estimator.h"

#include "reference/contract/error.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

std::string parse_error(const std::string& text) {
  try {
    (void)parse_estimator(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(EstimatorText, has_a_canonical_form_with_every_parameter) {
  const struct {
    const char *text, *canonical;
  } rows[] = {{"ste", "ste"},
              {"ste_clip", "ste_clip"},
              {"quest", "quest"},
              {"dge", "dge(k=5,clip=3,eps=0)"},
              {"dge(5,3)", "dge(k=5,clip=3,eps=0)"},
              {"dge(k=10)", "dge(k=10,clip=3,eps=0)"},
              {"dge(3,eps=0.01)", "dge(k=3,clip=3,eps=0.01)"},
              {"soft(20)", "soft(beta=20,forward=hard)"},
              {"soft(beta=7.5,forward=soft)", "soft(beta=7.5,forward=soft)"},
              {"dsq(0.2)", "dsq(alpha=0.2)"},
              {"ewgs(delta=1e-3)", "ewgs(delta=0.001)"}};
  for (const auto& row : rows) {
    EXPECT_EQ(parse_error(row.text), "");
    EXPECT_EQ(to_string(parse_estimator(row.text)), row.canonical);
    EXPECT_EQ(parse_estimator(row.canonical), parse_estimator(row.text));
  }
}

TEST(EstimatorText, errors_name_the_column_and_what_was_expected) {
  const struct {
    const char* text;
    int column;
    const char* words;
  } rows[] = {{"", 1, "ste"},
              {"dgx", 1, "dge"},
              {"dge(1)", 5, "above 1"},
              {"dge(inf)", 5, "above 1"},
              {"dge()", 5, "k"},
              {"dge(5,0)", 7, "above 0"},
              {"dge(5,eps=-1)", 11, "from 0"},
              {"dge(5,3,0,1)", 11, "k,clip,eps"},
              {"dge(5,k=4)", 7, "twice"},
              {"dge(clip=3,5)", 12, "name"},
              {"dge(5", 6, ")"},
              {"dge(5)x", 7, "the end"},
              {"ste(1)", 4, "the end"},
              {"soft", 5, "beta"},
              {"soft(forward=soft)", 19, "beta"},
              {"soft(20,forward=maybe)", 17, "hard"},
              {"dsq", 4, "alpha"},
              {"dsq(1)", 5, "between 0 and 1"},
              {"ewgs()", 6, "delta"}};
  for (const auto& row : rows) {
    const std::string message = parse_error(row.text);
    const std::string head = "estimator `" + std::string(row.text) + "`, column " + std::to_string(row.column) + ": ";
    EXPECT_TRUE(message.starts_with(head)) << row.text << " gave: " << message;
    EXPECT_NE(message.find(row.words), std::string::npos) << row.text << " gave: " << message;
  }
}

RC_GTEST_PROP(EstimatorProperty, parsing_the_printed_form_gives_the_same_estimator,
              (uint32_t a, uint32_t b, uint32_t c)) {
  Estimator e{.kind = EstimatorKind::dge, .k = 1.001 + a * 1e-7, .clip = (b + 1.0) / 3, .eps = c / 7.0};
  RC_ASSERT(parse_estimator(to_string(e)) == e);
  Estimator soft{.kind = EstimatorKind::soft, .beta = (a + 1.0) / 11, .soft_forward = b % 2 == 0};
  RC_ASSERT(parse_estimator(to_string(soft)) == soft);
}

}  // namespace
}  // namespace fp4sim
