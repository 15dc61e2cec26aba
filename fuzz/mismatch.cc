#include "fuzz/mismatch.h"

#include <fmt/format.h>

namespace fp4sim::fuzz {
namespace {

std::string message(const Mismatch& mismatch, const std::string& case_path) {
  return to_string(mismatch) + (case_path.empty() ? "" : "; case written to " + case_path);
}

}  // namespace

std::string to_string(const Mismatch& m) {
  return fmt::format("{}{}{}: output {} {}; {}; expected by {}, computed by {}", op_name(m.op),
                     m.node.empty() ? "" : " ", m.node, m.output, to_string(m.difference), m.shapes, m.expected_by,
                     m.computed_by);
}

std::optional<Mismatch> compare_outputs(const Case& c, const std::vector<HostValue>& expected,
                                        const std::vector<HostValue>& actual) {
  if (expected.size() != actual.size())
    throw Error(fmt::format("{}: {} outputs compared with {}", op_name(c.op), expected.size(), actual.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::optional<Difference> d = first_difference(expected[i], actual[i]);
    if (!d) continue;
    std::string shapes = describe(c) + " -> " + to_string(expected[i].type);
    return Mismatch{c.op, c.name, i, *d, std::move(shapes), "the case", "this run"};
  }
  return std::nullopt;
}

MismatchError::MismatchError(Mismatch mismatch, std::string case_path)
    : Error(message(mismatch, case_path)), mismatch_(std::move(mismatch)), case_path_(std::move(case_path)) {}

MismatchError::MismatchError(const std::string& message) : Error(message) {}

}  // namespace fp4sim::fuzz
