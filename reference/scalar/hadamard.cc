// Hadamard rotation (numerics.md §6): signs, Sylvester-order butterflies, one multiply.
#include <cmath>
#include <vector>

#include "reference/contract/host_backend.h"
#include "reference/contract/reduction_order.h"
#include "reference/contract/step_info.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/random_bits.h"

namespace fp4sim::scalar {
namespace {

/// negative[j]: the sign of position j of every block of n is −1.
std::vector<bool> signs_of(const NodeCall& call, int64_t n) {
  std::vector<bool> negative(static_cast<size_t>(n), false);
  const std::string& signs = call.node.attrs.text("signs");
  if (signs == "fixed16")
    for (size_t j = 0; j < negative.size(); ++j) negative[j] = (kHadamardFixedSigns >> (j % 16) & 1u) != 0;
  if (signs == "philox") {
    const StepInfo& step = *in_data<StepInfo>(call.in[1]);
    const auto words = philox_words(step.seed, 0, static_cast<uint32_t>(call.node.attrs.integer("stream")), step.step);
    for (size_t j = 0; j < negative.size(); ++j) negative[j] = (words[j / 32] >> (j % 32) & 1u) != 0;
  }
  return negative;
}

void apply_signs(std::vector<float>& v, const std::vector<bool>& negative) {
  for (size_t j = 0; j < v.size(); ++j)
    if (negative[j]) v[j] = -v[j];
}

void butterflies(std::vector<float>& v) {
  for (size_t stride = 1; stride < v.size(); stride *= 2)
    for (size_t j = 0; j < v.size(); ++j) {
      if ((j & stride) != 0) continue;
      const float a = v[j], b = v[j + stride];
      v[j] = a + b;
      v[j + stride] = a - b;
    }
  const float factor = 1.0f / std::sqrt(static_cast<float>(v.size()));
  for (float& e : v) e = e * factor;
}

}  // namespace

void kernels::hadamard(const NodeCall& call) {
  const Attrs& attrs = call.node.attrs;
  const int64_t n = attrs.integer("n");
  const bool inverse = attrs.integer_or("inverse", 0) != 0;
  const std::vector<bool> negative = signs_of(call, n);
  const VectorView view = vector_view(call.in[0].type.shape, parse_axis(attrs.text("axis")));
  const float* x = in_data<float>(call.in[0]);
  float* y = out_data<float>(call.out[0]);
  std::vector<float> block(static_cast<size_t>(n));
  for (int64_t v = 0; v < view.vectors; ++v)
    for (int64_t first = 0; first < view.length; first += n) {
      const int64_t begin = view.begin(v) + first * view.stride;
      for (int64_t j = 0; j < n; ++j) block[static_cast<size_t>(j)] = x[begin + j * view.stride];
      if (!inverse) apply_signs(block, negative);
      butterflies(block);
      if (inverse) apply_signs(block, negative);
      for (int64_t j = 0; j < n; ++j) y[begin + j * view.stride] = block[static_cast<size_t>(j)];
    }
}

}  // namespace fp4sim::scalar
