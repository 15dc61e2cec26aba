// Random bits (numerics.md §3): Philox4x32-10 in Random123's convention.
// Facts only (round constants, counter layout, stream names); each backend evaluates the rounds itself.
#pragma once

#include <cstdint>
#include <string_view>

namespace fp4sim {

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;  // Random123 PHILOX_M4x32_0
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;  // PHILOX_M4x32_1
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;        // PHILOX_W32_0, added to key word 0 each round
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;        // PHILOX_W32_1
inline constexpr int kPhiloxRounds = 10;
// key = (seed low, seed high); counter = (i/4 low, i/4 high, stream, step); element i takes word i mod 4.

/// The stream of a stable name: FNV-1a, 32 bits.
constexpr uint32_t stream_of(std::string_view name) {
  uint32_t hash = 0x811C9DC5u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193u;
  return hash;
}

}  // namespace fp4sim
