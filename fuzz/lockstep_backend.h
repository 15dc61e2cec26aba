// LockstepBackend(a, b): a Backend that runs every node on both and compares bits after each one. The program under
// `--backend lockstep:scalar,simd` is the real program under differential test. a is the oracle.
#pragma once

#include <memory>
#include <string>

#include "reference/contract/backend.h"

namespace fp4sim::fuzz {

enum class LockstepMode {
  chain,    // each side keeps its own values: what a run of b alone would compute
  isolate,  // after each node the oracle's outputs are copied to b: every node starts from equal inputs
};

struct LockstepOptions {
  LockstepMode mode = LockstepMode::chain;
  std::string case_path = "mismatch.case";  // where the case of the first difference goes; empty: nowhere
};

/// A backend named "lockstep:A,B". Buffers are pairs; upload goes to both, download and digest come from a. run
/// compares digests, and tensors only when they differ; the first difference throws MismatchError (mismatch.h) after
/// its case file was written. A node that either side cannot run is an Error from check.
std::unique_ptr<Backend> make_lockstep(std::unique_ptr<Backend> a, std::unique_ptr<Backend> b,
                                       LockstepOptions options = {});

}  // namespace fp4sim::fuzz
