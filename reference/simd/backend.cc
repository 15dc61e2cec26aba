#include "reference/simd/backend.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"
#include "reference/simd/ops.h"

namespace fp4sim::simd {
namespace {

using Entry = void (*)(const NodeCall&, const Context&);

constexpr Entry kOpsTable[] = {
#define FP4SIM_OP(id, inputs, outputs) &ops::id,
#include "reference/contract/op.def"
#undef FP4SIM_OP
};
static_assert(sizeof(kOpsTable) / sizeof(kOpsTable[0]) == kOpCount);

std::atomic<Level> last_level{Level::sse2};

class SimdBackend final : public HostBackend {
 public:
  SimdBackend(std::string name, Level level, int threads)
      : name_(std::move(name)), context_{level, threads > 0 ? threads : std::max(1, omp_get_max_threads())} {}
  std::string name() const override { return name_; }
  void run(const NodeCall& call) override {
    const FpEnvironment environment;
    last_level.store(context_.level, std::memory_order_relaxed);
    kOpsTable[static_cast<int>(call.node.op)](call, context_);
  }

 private:
  std::string name_;
  Context context_;
};

}  // namespace

const char* to_string(Level level) {
  constexpr const char* kNames[] = {"sse2", "avx2", "avx512", "avx512vnni"};
  return kNames[static_cast<int>(level)];
}

std::vector<Level> available_levels() {
  // __builtin_cpu_supports also asks the operating system (xgetbv) for the register state.
  __builtin_cpu_init();
  std::vector<Level> levels{Level::sse2};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) levels.push_back(Level::avx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && levels.size() == 2) {
    levels.push_back(Level::avx512);
    if (__builtin_cpu_supports("avx512vnni")) levels.push_back(Level::avx512vnni);
  }
  return levels;
}

std::unique_ptr<Backend> make_backend(Level level, int threads) {
  const std::vector<Level> levels = available_levels();
  if (std::find(levels.begin(), levels.end(), level) == levels.end())
    throw Error(std::string("backend simd-") + to_string(level) + ": this processor does not have the instructions");
  return std::make_unique<SimdBackend>(std::string("simd-") + to_string(level), level, threads);
}

std::unique_ptr<Backend> make_backend(int threads) {
  return std::make_unique<SimdBackend>("simd", available_levels().back(), threads);
}

Level last_level_run() { return last_level.load(std::memory_order_relaxed); }

}  // namespace fp4sim::simd
