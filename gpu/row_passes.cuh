// A warp's passes over one row, written once for two kinds of row: a row of up to 1024 elements is read once and held
// in registers, lane l with elements l, l + 32, … (numerics.md §7.4); a longer one is read from memory in every pass.
// An operand is what values() or products() give; `operand[i]` is an element for the i that sum and each hand out, and
// at(i) is its place in the row. All 32 lanes call these together with the same n.
#pragma once

#include <type_traits>

#include "gpu/launch.h"
#include "gpu/row_sum.cuh"

namespace fp4sim::gpu {

constexpr int kRowThreads = 256, kRowWarps = kRowThreads / kWarp;

class LongRow {
 public:
  __device__ explicit LongRow(int64_t n) : n_(n) {}

  struct Products {
    const float *a, *b;
    __device__ float operator[](int64_t i) const { return a[i] * b[i]; }
  };
  __device__ const float* values(const float* x) const { return x; }
  __device__ Products products(const float* a, const float* b) const { return {a, b}; }

  /// Σ of the row: fold(acc, i) takes element i.
  template <class Fold>
  __device__ float sum(const Fold& fold) const {
    return sum_of_row(n_, fold);
  }
  template <class Get>
  __device__ float max(const Get& get) const {
    return max_of_row(n_, get);
  }
  template <class F>
  __device__ void each(const F& f) const {
    for (int64_t i = lane_index(); i < n_; i += kWarp) f(i);
  }
  static __device__ int64_t at(int64_t i) { return i; }

 private:
  int64_t n_;
};

/// Up to 32·kPer elements.
template <int kPer>
class HeldRow {
 public:
  __device__ explicit HeldRow(int64_t n) : n_(static_cast<int>(n)) {}

  struct Values {
    float v[kPer];
    __device__ float operator[](int k) const { return v[k]; }
    __device__ float& operator[](int k) { return v[k]; }
  };
  __device__ Values values(const float* x) const {
    Values row;
#pragma unroll
    for (int k = 0; k < kPer; ++k) row.v[k] = exists(k) ? x[at(k)] : 0.0f;
    return row;
  }
  __device__ Values products(const float* a, const float* b) const {
    Values row;
#pragma unroll
    for (int k = 0; k < kPer; ++k) row.v[k] = exists(k) ? a[at(k)] * b[at(k)] : 0.0f;
    return row;
  }

  template <class Fold>
  __device__ float sum(const Fold& fold) const {
    float acc = 0.0f;
    each([&](int k) { acc = fold(acc, k); });
    return sum_of_lanes(acc);
  }
  template <class Get>
  __device__ float max(const Get& get) const {
    float mx = -float_of(kF32Inf);
    each([&](int k) { mx = greater_of(mx, get(k)); });
    return max_of_lanes(mx);
  }
  /// Whole warps skip what lies behind the row's end.
  template <class F>
  __device__ void each(const F& f) const {
#pragma unroll
    for (int k = 0; k < kPer; ++k)
      if (begins(k) && exists(k)) f(k);
  }
  static __device__ int at(int k) { return lane_index() + k * kWarp; }
  /// Whether lane 0 has an element k, this lane.
  __device__ bool begins(int k) const { return k * kWarp < n_; }
  __device__ bool exists(int k) const { return at(k) < n_; }

 private:
  int n_;
};

/// Calls launch(kind) with std::type_identity of the kind of row that suits n elements.
template <class Launch>
void with_row_kind(int64_t n, const Launch& launch) {
  if (n <= 128) return launch(std::type_identity<HeldRow<4>>());
  if (n <= 256) return launch(std::type_identity<HeldRow<8>>());
  if (n <= 384) return launch(std::type_identity<HeldRow<12>>());
  if (n <= 512) return launch(std::type_identity<HeldRow<16>>());
  if (n <= 1024) return launch(std::type_identity<HeldRow<32>>());
  launch(std::type_identity<LongRow>());
}

/// A warp of a block of kRowThreads for each of `rows`: row warp_index().
inline Grid row_grid(int64_t rows) { return Context::per_block(ceil_div(rows, kRowWarps), kRowThreads); }

}  // namespace fp4sim::gpu
