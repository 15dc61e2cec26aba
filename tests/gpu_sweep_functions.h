// The elementary functions of numerics.md §8 by themselves, of binary32 inputs, on a device and on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/hd.h"

namespace fp4sim::test {

enum class Function { exp64, log64, tanh64, exp_f32, log_f32 };
constexpr Function kFunctions[] = {Function::exp64, Function::log64, Function::tanh64, Function::exp_f32,
                                   Function::log_f32};
constexpr const char* kFunctionNames[] = {"exp64", "log64", "tanh64", "exp in binary32", "log in binary32"};

/// The bits of the results for the inputs with the bit patterns first … first + count − 1; NaN canonical. f is computed
/// by the current device's functions.
std::vector<uint64_t> device_values(Function f, uint32_t first, int64_t count);

/// The sum over the same results of mixed(bits, number of the input), modulo 2^64: equal sums, equal results.
uint64_t device_sum(Function f, uint32_t first, int64_t count);

FP4SIM_HD uint64_t mixed(uint64_t bits, uint64_t number) {
  uint64_t z = bits + (number + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace fp4sim::test
