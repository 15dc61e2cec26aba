// A device or a reason: tests of the cuda backend are skipped without one, and fail instead under FP4SIM_REQUIRE_GPU=1.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "gpu/backend.h"
#include "reference/contract/error.h"

namespace fp4sim::test {

/// Empty with a device, else why there is none.
inline std::string missing_device() {
  try {
    gpu::devices();
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

/// Base of the fixtures whose tests run kernels.
template <class Base = testing::Test>
class NeedsDevice : public Base {
 protected:
  void SetUp() override {
    static const std::string reason = missing_device();
    if (reason.empty()) return;
    const char* required = std::getenv("FP4SIM_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << reason;
    GTEST_SKIP() << reason;
  }
};

}  // namespace fp4sim::test
