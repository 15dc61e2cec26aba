// cross_entropy and its gradient over rows of logits (T, V), V ≥ 1 (numerics.md §9).
#include <vector>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"
#include "reference/scalar/elementary.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {
namespace {

/// exp(z − mx) of one row, its maximum and sum.
struct Exponentials {
  std::vector<float> e;
  float mx, sum;
};

Exponentials exponentials(const float* z, int64_t classes) {
  Exponentials r{std::vector<float>(static_cast<size_t>(classes)), max_of(z, classes), 0.0f};
  for (int64_t j = 0; j < classes; ++j) r.e[static_cast<size_t>(j)] = exp_f32(z[j] - r.mx);
  r.sum = rowsum(r.e.data(), classes);
  return r;
}

int64_t target_of(const NodeCall& call, int64_t row, int64_t classes) {
  const int64_t target = in_data<int32_t>(call.in[1])[row];
  if (target < 0 || target >= classes)
    throw Error("cross_entropy: target " + std::to_string(target) + " of row " + std::to_string(row) +
                " is outside [0, " + std::to_string(classes) + ")");
  return target;
}

}  // namespace

void cross_entropy(const NodeCall& call) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  float* losses = out_data<float>(call.out[0]);
  for (int64_t i = 0; i < m.rows; ++i) {
    const float* z = in_data<float>(call.in[0]) + i * m.cols;
    const Exponentials r = exponentials(z, m.cols);
    losses[i] = (r.mx + log_f32(r.sum)) - z[target_of(call, i, m.cols)];
  }
}

void cross_entropy_grad(const NodeCall& call) {
  const MatrixView m = matrix_view(call.in[0].type.shape);
  const float w = in_data<StepInfo>(call.in[2])->loss_scale / static_cast<float>(call.node.attrs.integer("total_rows"));
  for (int64_t i = 0; i < m.rows; ++i) {
    const Exponentials r = exponentials(in_data<float>(call.in[0]) + i * m.cols, m.cols);
    const int64_t target = target_of(call, i, m.cols);
    float* dz = out_data<float>(call.out[0]) + i * m.cols;
    for (int64_t j = 0; j < m.cols; ++j) {
      const float p = r.e[static_cast<size_t>(j)] / r.sum;
      dz[j] = (p - (j == target ? 1.0f : 0.0f)) * w;
    }
  }
}

}  // namespace fp4sim::scalar::kernels
