// Statistics of a tensor and of its approximation: binary64 sums in ascending order of the elements, one thread, so
// that the same tensors give the same digits everywhere.
#pragma once

#include <cstdint>
#include <span>

namespace fp4sim::cli {

/// The sums over all elements of x and its approximation y, d = y − x (exact in binary64 but for a far smaller y).
struct ErrorSums {
  int64_t count = 0;
  int64_t nonzero = 0;  // elements with x ≠ 0
  int64_t flushed = 0;  // of these, with y = 0
  double xx = 0, yy = 0, xy = 0, dd = 0;
  double abs_x = 0, abs_d = 0;
  double relative = 0;  // Σ |d|/|x| over x ≠ 0
};

ErrorSums error_sums(std::span<const float> x, std::span<const float> y);

/// ‖y−x‖₂/‖x‖₂. NaN where x is all zeros and y = x.
double relative_error(const ErrorSums& s);
/// Σ|y−x|/Σ|x|.
double relative_l1(const ErrorSums& s);
/// The mean of |y−x|/|x| over x ≠ 0.
double mean_relative(const ErrorSums& s);
/// The share of x ≠ 0 with y = 0.
double flushed_share(const ErrorSums& s);
/// The mean of (y−x)².
double mean_squared_error(const ErrorSums& s);
/// 10·log10(Σx²/Σ(y−x)²), in decibel; Inf for y = x.
double snr_db(const ErrorSums& s);
/// Σxy/(‖x‖₂·‖y‖₂).
double cosine(const ErrorSums& s);

/// What a tensor looks like. kurtosis: the fourth central moment over the squared variance (3 for a normal).
struct Moments {
  double mean = 0, rms = 0, largest = 0, kurtosis = 0;
};
Moments moments(std::span<const float> x);

}  // namespace fp4sim::cli
