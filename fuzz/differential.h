// Differential runs: random cases of every op on two backends, bits compared, a difference shrunk to a small case.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/generators.h"
#include "fuzz/mismatch.h"

namespace fp4sim::fuzz {

/// A case on which the backends differ, after shrinking; its outputs are the oracle's.
struct Failure {
  CaseParameters parameters;
  Case shrunk;
  Mismatch mismatch;
};

struct OpReport {
  Op op{};
  int64_t cases = 0;
  int64_t elements = 0;  // of the outputs compared
  std::vector<Failure> failures;
};

struct DifferentialReport {
  std::vector<OpReport> ops;  // in the order of op.def
  bool ok() const;
};

struct DifferentialOptions {
  std::string op_glob = "*";  // `*` and `?`; matched against op names
  uint64_t seed = 0;          // case n of an op is draw_case(op, seed + n)
  int64_t iterations = 100;   // cases an op; 0: until the time is over
  double seconds = 0;         // stop after this time; 0: no limit
  int64_t max_failures = 1;   // an op stops after this many
  bool shrink = true;
  std::function<void(const DifferentialReport&)> progress;  // after each round over the ops
};

/// The mismatch of a case on `tested` against the outputs of `oracle`, or nothing. An op that `tested` refuses by Error
/// is no mismatch but the Error. `expected` receives the oracle's outputs if not null.
std::optional<Mismatch> run_differential(Backend& tested, Backend& oracle, const Case& c,
                                         std::vector<HostValue>* expected = nullptr);

/// The mismatch of a case whose expected outputs are stored in it.
std::optional<Mismatch> replay_case(Backend& tested, const Case& c);

/// Runs cases of every op that the glob names; the oracle also makes the cases' quantized operands. Throws UsageError
/// if no op matches.
DifferentialReport fuzz_ops(Backend& tested, Backend& oracle, const DifferentialOptions& options);

/// The simplest parameters found, from `parameters` on, on which the backends still differ: greedy, one step of
/// simpler_cases at a time.
Failure shrink_failure(Backend& tested, Backend& oracle, const CaseParameters& parameters);

/// True if the text matches the pattern (`*` any run, `?` any character).
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace fp4sim::fuzz
