// The residual of OCC as stored in a csr value (numerics.md §6).
#pragma once

#include <cstdint>

#include "reference/contract/backend.h"

namespace fp4sim::scalar {

/// ΔY of entry number `entry` as binary32: fp32 and bf16 residuals as they are, e4m3 as fl(code·2^(scale − 127)); a
/// scale of 0xFF gives NaN.
float residual_value(const Tensor& csr, int64_t entry);

}  // namespace fp4sim::scalar
