#include "fuzz/differential.h"

#include <algorithm>
#include <chrono>

namespace fp4sim::fuzz {
namespace {

constexpr int kMaxShrinkRuns = 400;  // a case costs milliseconds: shrinking stays below a few seconds

std::vector<Op> matching_ops(const std::string& glob) {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i)
    if (matches_glob(glob, kOps[i].name)) ops.push_back(static_cast<Op>(i));
  if (ops.empty()) throw UsageError("no op matches `" + glob + "`");
  return ops;
}

std::optional<Failure> failure_of(Backend& tested, Backend& oracle, const CaseParameters& parameters) {
  Case c = build_case(parameters, oracle);
  std::vector<HostValue> expected;
  std::optional<Mismatch> mismatch = run_differential(tested, oracle, c, &expected);
  if (!mismatch) return std::nullopt;
  c.outputs = std::move(expected);
  return Failure{parameters, std::move(c), std::move(*mismatch)};
}

/// An Error of a backend in the middle of many cases says which case it was.
template <class Run>
auto named_after(const CaseParameters& parameters, Run run) {
  try {
    return run();
  } catch (const Error& e) {
    throw Error(std::string(e.what()) + "; in case " + to_string(parameters));
  }
}

void run_one(Backend& tested, Backend& oracle, const DifferentialOptions& options, uint64_t seed, OpReport& report) {
  const CaseParameters parameters = draw_case(report.op, seed);
  std::vector<HostValue> expected;
  const Case c = named_after(parameters, [&] { return build_case(parameters, oracle); });
  const auto mismatch = named_after(parameters, [&] { return run_differential(tested, oracle, c, &expected); });
  ++report.cases;
  for (const HostValue& value : expected) report.elements += element_count(value.type.shape);
  if (!mismatch) return;
  if (options.shrink) {
    report.failures.push_back(shrink_failure(tested, oracle, parameters));
    return;
  }
  Failure failure{parameters, c, *mismatch};
  failure.shrunk.outputs = std::move(expected);
  report.failures.push_back(std::move(failure));
}

}  // namespace

bool DifferentialReport::ok() const {
  return std::all_of(ops.begin(), ops.end(), [](const OpReport& r) { return r.failures.empty(); });
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*')
    return matches_glob(pattern.substr(1), text) || (!text.empty() && matches_glob(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         matches_glob(pattern.substr(1), text.substr(1));
}

std::optional<Mismatch> run_differential(Backend& tested, Backend& oracle, const Case& c,
                                         std::vector<HostValue>* expected) {
  std::vector<HostValue> wanted = run_case(oracle, c);
  std::optional<Mismatch> mismatch = compare_outputs(c, wanted, run_case(tested, c));
  if (mismatch) mismatch->expected_by = oracle.name(), mismatch->computed_by = tested.name();
  if (expected != nullptr) *expected = std::move(wanted);
  return mismatch;
}

std::optional<Mismatch> replay_case(Backend& tested, const Case& c) {
  if (c.outputs.empty()) throw Error("the case holds no expected outputs: " + describe(c));
  std::optional<Mismatch> mismatch = compare_outputs(c, c.outputs, run_case(tested, c));
  if (mismatch) mismatch->expected_by = "the case file", mismatch->computed_by = tested.name();
  return mismatch;
}

Failure shrink_failure(Backend& tested, Backend& oracle, const CaseParameters& parameters) {
  std::optional<Failure> best = failure_of(tested, oracle, parameters);
  if (!best) throw Error("shrinking needs a case that fails: " + to_string(parameters));
  int runs = 0;
  for (bool smaller = true; smaller && runs < kMaxShrinkRuns;) {
    smaller = false;
    for (const CaseParameters& candidate : simpler_cases(best->parameters)) {
      if (++runs >= kMaxShrinkRuns) break;
      std::optional<Failure> failure = failure_of(tested, oracle, candidate);
      if (!failure) continue;
      best = std::move(failure);
      smaller = true;
      break;
    }
  }
  return std::move(*best);
}

DifferentialReport fuzz_ops(Backend& tested, Backend& oracle, const DifferentialOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (options.iterations <= 0 && options.seconds <= 0) throw UsageError("fuzzing needs a number of cases or a time");
  DifferentialReport report;
  for (const Op op : matching_ops(options.op_glob)) report.ops.push_back({op, 0, 0, {}});
  const auto begin = Clock::now();
  const auto out_of_time = [&] {
    return options.seconds > 0 && std::chrono::duration<double>(Clock::now() - begin).count() >= options.seconds;
  };
  for (int64_t round = 0; options.iterations <= 0 || round < options.iterations; ++round) {
    bool active = false;
    for (OpReport& op : report.ops) {
      if (out_of_time()) return report;
      if (static_cast<int64_t>(op.failures.size()) >= options.max_failures) continue;
      run_one(tested, oracle, options, options.seed + static_cast<uint64_t>(round), op);
      active = true;
    }
    if (options.progress) options.progress(report);
    if (!active) break;
  }
  return report;
}

}  // namespace fp4sim::fuzz
