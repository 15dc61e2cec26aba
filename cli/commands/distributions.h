// Random tensors of a named distribution: every element is a function of (seed, distribution, its index) alone,
// computed from Philox and the fixed binary64 algorithms of contract's host_math, so that the same text gives the same
// bits everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fp4sim::cli {

inline constexpr int kDistributionParameters = 2;

/// Two independent uniform numbers in (0, 1), odd multiples of 2^-54.
struct Uniforms {
  double u, v;
};

/// A number of a distribution with its default and range (bounds included).
struct DistributionParameter {
  const char* name = nullptr;
  double otherwise = 0, lowest = 0, highest = 0;
};

/// One row a distribution: the element as a binary64 function of its parameters and uniforms.
struct DistributionRow {
  const char* name;
  DistributionParameter parameters[kDistributionParameters];
  double (*value)(const double* parameters, Uniforms r);
  /// The first parameter is the share of columns whose elements are multiplied by the second.
  bool outlier_columns;
  const char* meaning;
};
extern const DistributionRow kDistributions[5];

/// A row with its parameters.
struct Distribution {
  const DistributionRow* row = nullptr;
  double parameters[kDistributionParameters] = {};
};

/// Parses `normal`, `student-t(4)`, `outlier-channels(share=0.01,factor=20)` …; UsageError with the column.
Distribution parse_distribution(std::string_view text);
/// The text form with every parameter.
std::string distribution_text(const Distribution& distribution);

/// The uniforms of element i: words w of Philox counter (i, stream), u = ((w0·2^21 + w1 >> 11) + 1/2)·2^-53, v the same
/// of w2, w3.
Uniforms uniforms_at(uint64_t seed, uint32_t stream, int64_t i);

/// The columns that `outlier-channels` multiplies, ascending: the share·columns (rounded to nearest, at least one
/// unless the share is 0) with the smallest numbers of their own stream.
std::vector<int64_t> outlier_columns(const Distribution& distribution, int64_t columns, uint64_t seed);

/// rows × columns elements row-major, each rounded once to binary32. Stream of a distribution: its name after `error/`.
std::vector<float> draw(const Distribution& distribution, int64_t rows, int64_t columns, uint64_t seed);

}  // namespace fp4sim::cli
