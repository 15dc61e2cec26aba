// The version of the definition in docs/numerics.md that this code computes. It changes when any result bit may change.
#pragma once

namespace fp4sim {

inline constexpr int kNumericsVersion = 1;

}  // namespace fp4sim
