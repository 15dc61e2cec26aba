// The digest of a value (reference/contract/digest.h) computed on the device.
#pragma once

#include "gpu/launch.h"

namespace fp4sim::gpu {

/// Adds the digest of the tensor to *sum, a device word that the caller has set to 0; in the order of the stream.
void add_digest(const Tensor& tensor, uint64_t* sum, Context& context);

}  // namespace fp4sim::gpu
