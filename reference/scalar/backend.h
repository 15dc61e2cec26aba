// Backend `scalar`: the specification as code. One value, one block, one row at a time; single-threaded, slow on
// purpose.
#pragma once

#include <memory>

#include "reference/contract/backend.h"

namespace fp4sim::scalar {

std::unique_ptr<Backend> make_backend();

}  // namespace fp4sim::scalar
