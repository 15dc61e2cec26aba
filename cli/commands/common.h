// What the subcommands share: backends by name. The only room that names concrete backends.
#pragma once

#include <memory>
#include <string>

#include "reference/contract/backend.h"

namespace fp4sim::cli {

/// The backend of a text: scalar, simd, simd-sse2, simd-avx2, simd-avx512, simd-avx512vnni, cuda or lockstep:A,B
/// (each of them but lockstep). threads = 0: all cores. UsageError for an unknown name, Error for one this machine
/// cannot run.
std::unique_ptr<Backend> make_backend(const std::string& name, int threads);

/// For the help text of --backend.
inline constexpr const char* kBackendHelp =
    "scalar, simd, simd-sse2, simd-avx2, simd-avx512, simd-avx512vnni, cuda or lockstep:A,B";

}  // namespace fp4sim::cli
