// Gradients by central differences of a binary64 function, for gradient kernels in binary32.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace fp4sim::test {

using Vector = std::vector<double>;

inline Vector doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// n numbers in [−limit, limit], each a binary32 number.
inline std::vector<float> uniform_floats(size_t n, float limit, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = limit * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
  return x;
}

/// Σ w·y: the scalar whose gradient for upstream gradient w a kernel computes.
inline double weighted_sum(const std::vector<float>& w, const Vector& y) {
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += static_cast<double>(w[i]) * y[i];
  return sum;
}

/// Success if every element of `got` is within `tolerance` (relative to the largest element, at least 1) of `want`.
inline testing::AssertionResult is_near(const std::vector<float>& got, const Vector& want, double tolerance) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  double largest = 1;
  for (const double v : want) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(static_cast<double>(got[i]) - want[i]) <= tolerance * largest))
      return testing::AssertionFailure() << "element " << i << ": " << got[i] << ", expected " << want[i];
  }
  return testing::AssertionSuccess();
}

/// The gradient of f at x by central differences with step 1e-5: error about 1e-10 for f of order one.
inline Vector numeric_gradient(const std::function<double(const Vector&)>& f, Vector x) {
  constexpr double kStep = 1e-5;
  Vector gradient;
  for (double& v : x) {
    const double at = v;
    v = at + kStep;
    const double above = f(x);
    v = at - kStep;
    const double below = f(x);
    v = at;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

}  // namespace fp4sim::test
