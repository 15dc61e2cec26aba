// Element distributions of the generators: random floats and the corner tables of block quantization, each a row.
// Element i of a tensor is a pure function of (distribution, seed, stream, i).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/host_math.h"

namespace fp4sim::fuzz {

/// One distribution: `bits(words, i)` is the binary32 pattern of element i from four random words.
struct Distribution {
  const char* name;
  const char* what;
  uint32_t (*bits)(const host_math::Words& words, int64_t i);
};

/// All distributions; the first is the plainest (shrinking goes towards it).
const std::vector<Distribution>& distributions();

/// The distribution of a name; throws UsageError listing the names for an unknown one.
const Distribution& find_distribution(std::string_view name);

/// n elements of a distribution.
std::vector<float> elements(const Distribution& distribution, uint64_t seed, std::string_view stream, int64_t n);

}  // namespace fp4sim::fuzz
