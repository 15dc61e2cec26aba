// Random bits (numerics.md §3), through Random123's own Philox4x32-10.
#pragma once

#include <array>
#include <cstdint>

namespace fp4sim::scalar {

/// The four words of counter (counter low, counter high, stream, step) under key (seed low, seed high).
std::array<uint32_t, 4> philox_words(uint64_t seed, uint64_t counter, uint32_t stream, uint32_t step);

/// The 32 random bits of element i: word i mod 4 of counter i/4.
uint32_t random_bits(uint64_t seed, uint32_t stream, uint32_t step, uint64_t i);

}  // namespace fp4sim::scalar
