// The oracle of the exhaustive proofs: a monotone map from binary32 magnitudes to codes as runs of equal codes, whose
// first members are found by exact comparisons in binary64 (rational midpoints). It shares the format's row with the
// code under test and nothing else.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/grid_oracle.h"

namespace fp4sim::test {

/// Bits of the magnitudes from `first` up to the next run's first give `code`.
struct Run {
  uint32_t first;
  uint32_t code;
};
using Runs = std::vector<Run>;

inline double magnitude_value(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }

/// The smallest magnitude bits whose value satisfies a predicate that stays true once it is; kF32Inf if no finite one
/// does.
template <class Predicate>
uint32_t first_bits(const Predicate& holds) {
  uint32_t low = 0, high = kF32Inf;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (holds(magnitude_value(middle)))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Appends a run; a run that would be empty is replaced.
inline void add_run(Runs& runs, uint32_t first, uint32_t code) {
  if (!runs.empty() && runs.back().first == first)
    runs.back().code = code;
  else
    runs.push_back({first, code});
}

/// Codes without sign of all magnitudes (§2, §3 rne): between neighbours the midpoint decides, a tie goes to the even
/// code. Behind the last run come Inf and NaN.
inline Runs nearest_even_runs(const ElementFormat& f, bool ieee) {
  const GridTable table = grid_table(f);
  const auto top = static_cast<uint32_t>(table.values.size()) - 1;
  const uint32_t beyond = ieee ? top + 1 : top;
  Runs runs{{0, 0}};
  for (uint32_t code = 1; code <= top + 1; ++code) {
    const double high = code <= top ? table.values[code] : table.continued;
    const double middle = (table.values[code - 1] + high) / 2;  // exact: grids have at most 24 significant bits
    const bool tie_up = code % 2 == 0;
    const uint32_t first = first_bits([&](double v) { return tie_up ? v >= middle : v > middle; });
    add_run(runs, first, code <= top ? code : beyond);
  }
  add_run(runs, kF32Inf, beyond);
  const uint32_t nan = f.specials == Specials::none       ? top
                       : f.specials == Specials::nan_only ? top + 1
                                                          : top + 1 + (1u << (f.mantissa_bits - 1));
  add_run(runs, kF32Inf + 1, nan);
  return runs;
}

/// The walk through runs in ascending order of magnitude: code_of(bits) for bits that never decrease between calls.
class RunWalk {
 public:
  /// Starts at `bits`.
  RunWalk(const Runs& runs, uint32_t bits) : runs_(runs) {
    const auto above = std::upper_bound(runs.begin(), runs.end(), bits,
                                        [](uint32_t value, const Run& run) { return value < run.first; });
    at_ = static_cast<size_t>(above - runs.begin()) - 1;
  }
  uint32_t code_of(uint32_t bits) {
    while (at_ + 1 < runs_.size() && runs_[at_ + 1].first <= bits) ++at_;
    return runs_[at_].code;
  }

 private:
  const Runs& runs_;
  size_t at_;
};

}  // namespace fp4sim::test
