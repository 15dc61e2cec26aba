#include "reference/scalar/backend.h"

#include "reference/contract/fp_environment.h"
#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"

namespace fp4sim::scalar {
namespace {

using Kernel = void (*)(const NodeCall&);

constexpr Kernel kKernels[] = {
#define FP4SIM_OP(id, inputs, outputs) &kernels::id,
#include "reference/contract/op.def"
#undef FP4SIM_OP
};
static_assert(sizeof(kKernels) / sizeof(kKernels[0]) == kOpCount);

class ScalarBackend final : public HostBackend {
 public:
  std::string name() const override { return "scalar"; }
  void run(const NodeCall& call) override {
    const FpEnvironment environment;
    kKernels[static_cast<int>(call.node.op)](call);
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<ScalarBackend>(); }

}  // namespace fp4sim::scalar
