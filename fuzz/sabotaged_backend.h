// SabotagedBackend: a backend with ONE named fault switched on. The fuzz harness must catch every fault within the
// number of cases in its row: that is what says the harness is not vacuous.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fuzz/host_value.h"

namespace fp4sim::fuzz {

/// What a fault is given: the intact backend, the node, and the outputs of the last run of the same op.
struct SabotagedCall {
  Backend& inner;
  const NodeCall& call;
  std::vector<HostValue>& previous_outputs;

  HostValue input(size_t i) const { return download_value(inner, call.in[i]); }
  HostValue output(size_t i = 0) const { return download_value(inner, call.out[i]); }
  void set_output(const HostValue& value, size_t i = 0) const { upload_value(inner, call.out[i], value); }
  /// The intact node.
  void run() const { inner.run(call); }
  /// The node with other attributes; a changed spec changes the output's type with it, not its layout.
  void run_with(const Attrs& attrs) const;
  /// The node with another output type and inputs of other types; each component keeps as many of its bytes as fit,
  /// zeros behind them.
  void run_as(const ValueType& out_type, std::span<const Tensor> in, const Attrs& attrs) const;
  /// The node with one input replaced.
  void run_with_input(size_t i, const HostValue& value) const;
};

/// One fault. `cases`: differential cases of its op within which it must be found.
struct Mutant {
  const char* name;
  Op op;
  int64_t cases;
  const char* what;
  void (*run)(const SabotagedCall& call);
};

const std::vector<Mutant>& mutants();

/// A backend named "sabotaged:MUTANT(INNER)" that runs the mutant in place of its op and everything else as it is.
/// Throws UsageError listing the names for an unknown one.
std::unique_ptr<Backend> make_sabotaged(std::unique_ptr<Backend> inner, const std::string& mutant);

}  // namespace fp4sim::fuzz
