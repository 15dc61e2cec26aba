// What a permute node does, and where it puts the outputs of a product before it.
#pragma once

#include <optional>

#include "gpu/product.cuh"
#include "reference/contract/graph.h"

namespace fp4sim::gpu {

/// Axis i of the result is axis order[i] of the source seen as `view`.
struct Permutation {
  Shape view, order;
};

/// The attributes of a permute node.
Permutation permutation_of(const Node& permute);

/// Where the permutation puts the outputs of a product (matrices, m, n); nothing where OutputPlaces cannot say it.
std::optional<OutputPlaces> permuted_places(int64_t matrices, int64_t m, int64_t n, const Permutation& permutation);

}  // namespace fp4sim::gpu
