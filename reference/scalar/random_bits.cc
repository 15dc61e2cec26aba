#include "reference/scalar/random_bits.h"

#include <Random123/philox.h>

namespace fp4sim::scalar {

std::array<uint32_t, 4> philox_words(uint64_t seed, uint64_t counter, uint32_t stream, uint32_t step) {
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  const philox4x32_ctr_t ctr = {{low(counter), high(counter), stream, step}};
  const philox4x32_key_t key = {{low(seed), high(seed)}};
  const philox4x32_ctr_t words = philox4x32(ctr, key);
  return {words.v[0], words.v[1], words.v[2], words.v[3]};
}

uint32_t random_bits(uint64_t seed, uint32_t stream, uint32_t step, uint64_t i) {
  return philox_words(seed, i / 4, stream, step)[i % 4];
}

}  // namespace fp4sim::scalar
