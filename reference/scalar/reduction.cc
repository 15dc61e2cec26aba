#include "reference/scalar/reduction.h"

#include <cmath>
#include <vector>

namespace fp4sim::scalar {
namespace {

/// Halving tree over the lanes: 16, 8, 4, 2, 1; lane i + lane i+h.
float sum_of_lanes(float (&lane)[kLanes]) {
  for (int h = kLanes / 2; h > 0; h /= 2) {
    for (int i = 0; i < h; ++i) lane[i] = lane[i] + lane[i + h];
  }
  return lane[0];
}

/// One chunk: lane l folds elements l, l+32, … in ascending order from +0. fold(acc, i) takes element i into acc.
template <class Fold>
float sum_of_chunk(int64_t first, int64_t last, const Fold& fold) {
  float lane[kLanes] = {};
  for (int64_t i = first; i < last; ++i) {
    float& acc = lane[(i - first) % kLanes];
    acc = fold(acc, i);
  }
  return sum_of_lanes(lane);
}

template <class Fold>
float sum_of_row(int64_t n, const Fold& fold) {
  if (n <= kRowChunk) return sum_of_chunk(0, n, fold);
  std::vector<float> chunks;
  for (int64_t first = 0; first < n; first += kRowChunk)
    chunks.push_back(sum_of_chunk(first, std::min(n, first + kRowChunk), fold));
  return rowsum(chunks.data(), static_cast<int64_t>(chunks.size()));
}

}  // namespace

float rowsum(const float* x, int64_t n) {
  return sum_of_row(n, [x](float acc, int64_t i) { return acc + x[i]; });
}

float rowsum_products(const float* a, const float* b, int64_t n) {
  return sum_of_row(n, [a, b](float acc, int64_t i) { return std::fma(a[i], b[i], acc); });
}

void column_sum(const float* x, int64_t rows, int64_t columns, float* out) {
  for (int64_t c = 0; c < columns; ++c) {
    out[c] = sum_of_panels(rows, [=](int64_t first, int64_t last) {
      float acc = 0.0f;
      for (int64_t r = first; r < last; ++r) acc = acc + x[r * columns + c];
      return acc;
    });
  }
}

void column_sum_products(const float* a, const float* b, int64_t rows, int64_t columns, float* out) {
  for (int64_t c = 0; c < columns; ++c) {
    out[c] = sum_of_panels(rows, [=](int64_t first, int64_t last) {
      float acc = 0.0f;
      for (int64_t r = first; r < last; ++r) acc = std::fma(a[r * columns + c], b[r * columns + c], acc);
      return acc;
    });
  }
}

float max_of(float a, float b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

float max_of(const float* x, int64_t n) {
  float m = x[0];
  for (int64_t i = 1; i < n; ++i) m = max_of(m, x[i]);
  return m;
}

}  // namespace fp4sim::scalar
