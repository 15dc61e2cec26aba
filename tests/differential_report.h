// What the differential tests of simd and cuda share: every op as a parameter, and the failures of a report as text.
#pragma once

#include <string>
#include <vector>

#include "fuzz/differential.h"

namespace fp4sim::test {

inline std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i) ops.push_back(static_cast<Op>(i));
  return ops;
}

/// Parameters and first difference of every failure.
inline std::string failures_text(const fuzz::DifferentialReport& report) {
  std::string text;
  for (const fuzz::OpReport& op : report.ops)
    for (const fuzz::Failure& f : op.failures)
      text += fuzz::to_string(f.parameters) + "\n  " + fuzz::to_string(f.mismatch) + "\n";
  return text;
}

}  // namespace fp4sim::test
