// Golden files: what the scalar backend computed once, for a fixed list of cases and training runs, as digests.
// golden/run/ops/OP.txt holds one line a case; golden/run/training.json the losses of tiny runs. They change only
// through bless, with the reason in the commit.
#pragma once

#include <string>
#include <vector>

#include "fuzz/generators.h"

namespace fp4sim::fuzz {

/// The fixed list of golden cases: spec × axis × distribution × op. New rows are appended by adding to its tables.
std::vector<CaseParameters> golden_cases();

/// The line of a case: `PARAMETERS | in DIGEST | out DIGEST… | full VALUE…`. `in` covers all inputs, so that a changed
/// generator is told from changed numerics; outputs of at most 64 bytes follow in full: f32 elements as hexadecimal
/// numbers, everything else as hexadecimal bytes in memory order.
std::string golden_line(Backend& backend, Backend& maker, const CaseParameters& parameters);

struct GoldenReport {
  int64_t rows = 0;                      // checked
  std::vector<std::string> differences;  // one line each: the file, the case, what differs
};

/// Compares what `backend` computes with the files below `directory`/ops. Operands are made by `maker` (the scalar
/// backend). A missing or superfluous line is a difference.
GoldenReport check_golden_ops(Backend& backend, Backend& maker, const std::string& directory);

/// Replays the case files of `directory`/cases, which failed or caught a fault once; none where there is no such
/// folder.
GoldenReport check_golden_cases(Backend& backend, const std::string& directory);

/// Writes the files below `directory`/ops from `scalar`; returns the number of lines.
int64_t bless_golden_ops(Backend& scalar, const std::string& directory);

}  // namespace fp4sim::fuzz
