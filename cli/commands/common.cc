#include "cli/commands/common.h"

#include "fuzz/lockstep_backend.h"
#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#ifdef FP4SIM_WITH_CUDA
#include "gpu/backend.h"
#endif

namespace fp4sim::cli {
namespace {

constexpr const char* kLockstep = "lockstep:";

std::unique_ptr<Backend> make_lockstep(const std::string& pair, int threads) {
  const size_t comma = pair.find(',');
  if (comma == std::string::npos) throw UsageError("backend lockstep: takes two names: lockstep:A,B");
  // The threads are for the sides that have them.
  const auto side = [&](const std::string& name) {
    return make_backend(name, name == "scalar" || name == "cuda" ? 0 : threads);
  };
  return fuzz::make_lockstep(side(pair.substr(0, comma)), side(pair.substr(comma + 1)));
}

#ifdef FP4SIM_WITH_CUDA
std::unique_ptr<Backend> make_cuda() { return gpu::make_backend(); }
#else
std::unique_ptr<Backend> make_cuda() { throw Error("backend cuda: this program was built without it (./dev cuda)"); }
#endif

}  // namespace

std::unique_ptr<Backend> make_backend(const std::string& name, int threads) {
  if (threads < 0 || threads > 4096)
    throw UsageError("threads must be between 0 (all cores) and 4096, got " + std::to_string(threads));
  if (name == "scalar" && threads > 1)
    throw UsageError("backend scalar computes on one thread, not " + std::to_string(threads));
  if (name == "cuda" && threads > 0)
    throw UsageError("backend cuda has no threads to set: leave out " + std::to_string(threads));
  if (name == "scalar") return scalar::make_backend();
  if (name == "cuda") return make_cuda();
  if (name == "simd") return simd::make_backend(threads);
  for (const simd::Level level : {simd::Level::sse2, simd::Level::avx2, simd::Level::avx512, simd::Level::avx512vnni})
    if (name == std::string("simd-") + simd::to_string(level)) return simd::make_backend(level, threads);
  if (name.starts_with(kLockstep)) return make_lockstep(name.substr(std::string(kLockstep).size()), threads);
  throw UsageError("unknown backend `" + name + "` (" + kBackendHelp + ")");
}

}  // namespace fp4sim::cli
