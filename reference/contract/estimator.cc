#include "reference/contract/estimator.h"

#include <cmath>

#include "reference/contract/fp_environment.h"
#include "reference/contract/text_cursor.h"

namespace fp4sim {
namespace {

// Every number of every estimator: where it is stored, its range in words, whether numerics.md §5 gives a default.
struct Parameter {
  EstimatorKind kind;
  const char* name;
  double Estimator::*member;
  bool required;
  bool (*valid)(double);
  const char* range;
};

constexpr Parameter kParameters[] = {
    {EstimatorKind::dge, "k", &Estimator::k, false, [](double v) { return v > 1; }, "a number above 1"},
    {EstimatorKind::dge, "clip", &Estimator::clip, false, [](double v) { return v > 0; }, "a number above 0"},
    {EstimatorKind::dge, "eps", &Estimator::eps, false, [](double v) { return v >= 0; }, "a number from 0 on"},
    {EstimatorKind::soft, "beta", &Estimator::beta, true, [](double v) { return v > 0; }, "a number above 0"},
    {EstimatorKind::dsq, "alpha", &Estimator::alpha, true, [](double v) { return v > 0 && v < 1; },
     "a number between 0 and 1"},
    {EstimatorKind::ewgs, "delta", &Estimator::delta, true, [](double v) { return v >= 0; }, "a number from 0 on"},
};

const EstimatorRow& row_of(EstimatorKind kind) {
  for (const EstimatorRow& row : kEstimators)
    if (row.kind == kind) return row;
  throw Error("unreachable estimator kind");
}

std::string all_names() {
  std::string names;
  for (const EstimatorRow& row : kEstimators) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string name_at(const EstimatorRow& row, int index) {
  std::string_view names = row.parameters;
  for (; index > 0 && !names.empty(); --index) {
    const size_t comma = names.find(',');
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
  }
  return std::string(names.substr(0, names.find(',')));
}

int parameter_count(const EstimatorRow& row) {
  int count = 0;
  while (!name_at(row, count).empty()) ++count;
  return count;
}

void parse_value(TextCursor& cursor, const std::string& name, Estimator& estimator) {
  if (name == "forward") {
    estimator.soft_forward = cursor.peek_word() == "soft";
    if (!cursor.accept("soft") && !cursor.accept("hard")) cursor.fail("forward as `hard` or `soft`");
    return;
  }
  for (const Parameter& p : kParameters) {
    if (p.kind != estimator.kind || name != p.name) continue;
    const size_t begin = cursor.position();
    if (!cursor.accept_number(estimator.*p.member)) cursor.fail(name + " as " + p.range);
    if (!std::isfinite(estimator.*p.member) || !p.valid(estimator.*p.member))
      cursor.fail_at(begin, name + " must be " + p.range);
  }
}

/// Parses "(5,clip=3)": positional values first, then named ones. Bit i of the result: parameter i was given.
unsigned parse_parameters(TextCursor& cursor, const EstimatorRow& row, Estimator& estimator) {
  unsigned given = 0;
  bool named = false;
  for (int next = 0; next == 0 || cursor.accept(","); ++next) {
    int index = next;
    for (int i = 0; i < parameter_count(row); ++i) {
      if (!cursor.rest().starts_with(name_at(row, i) + "=")) continue;
      index = i;
      named = true;
    }
    if (named && !cursor.rest().starts_with(name_at(row, index) + "=")) cursor.fail("a parameter name and `=`");
    if (index >= parameter_count(row)) cursor.fail("`)`: " + std::string(row.name) + " takes " + row.parameters);
    if ((given >> index & 1u) != 0) cursor.fail_at(cursor.position(), name_at(row, index) + " is given twice");
    given |= 1u << index;
    cursor.accept(name_at(row, index) + "=");
    parse_value(cursor, name_at(row, index), estimator);
  }
  cursor.expect(")", "`,` or `)`");
  return given;
}

}  // namespace

Estimator parse_estimator(std::string_view text) {
  const FpEnvironment environment;  // decimal fractions must not follow the caller's rounding mode
  TextCursor cursor("estimator", text);
  Estimator estimator;
  const EstimatorRow* found = nullptr;
  for (const EstimatorRow& row : kEstimators)
    if (cursor.peek_word() == row.name) found = &row;
  if (found == nullptr) cursor.fail("one of " + all_names());
  cursor.accept(found->name);
  estimator.kind = found->kind;
  unsigned given = 0;
  if (parameter_count(*found) > 0 && cursor.accept("(")) given = parse_parameters(cursor, *found, estimator);
  for (const Parameter& p : kParameters)
    for (int i = 0; i < parameter_count(*found); ++i)
      if (p.kind == estimator.kind && p.required && name_at(*found, i) == p.name && (given >> i & 1u) == 0)
        cursor.fail_at(cursor.position(), std::string(found->name) + " needs its " + p.name + ": " + p.range);
  if (!cursor.at_end()) cursor.fail("the end");
  return estimator;
}

std::string to_string(const Estimator& e) {
  const EstimatorRow& row = row_of(e.kind);
  std::string list;
  for (const Parameter& p : kParameters)
    if (p.kind == e.kind) list += (list.empty() ? "" : ",") + std::string(p.name) + "=" + shortest_text(e.*p.member);
  if (e.kind == EstimatorKind::soft) list += e.soft_forward ? ",forward=soft" : ",forward=hard";
  return list.empty() ? row.name : row.name + ("(" + list + ")");
}

}  // namespace fp4sim
