// A plan's nodes as launch units. Neighbours in the flow of data run as one kernel where that gives the same bits in
// less time: a value that only the next node of its chain reads is never stored, and chains without dependence on each
// other share a launch. What may run together is a table (kFusions in schedule.cu), a row a kernel. Planning needs no
// device, and this header none of CUDA's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reference/contract/backend.h"

namespace fp4sim::gpu {

class Context;

/// Nodes of which each reads the first output of the one before it.
struct Chain {
  std::vector<BoundNode> nodes;
  std::vector<bool> stored;  // of each node: somebody outside of the chain sees its first output, so it must be written
};

/// A row of the table. A chain grows from one node, or from a chain of the row `from`, while `extends` agrees; what it
/// is then must be `complete`.
struct Fusion {
  const char* name;
  const Fusion* from = nullptr;
  bool in_place;  // the kernels take all inputs of an element before they write any output there
  bool (*starts)(const NodeCall& first);
  bool (*extends)(const Chain& chain, const NodeCall& next);
  bool (*complete)(const Chain& chain);
  size_t together = 1;                                      // chains of one launch,
  bool (*joins)(const Chain& a, const Chain& b) = nullptr;  // where two of them may share one
  void (*launch)(std::span<const Chain> chains, Context& context);
};

/// One launch unit: some chains of a row, or one node with its own op.
struct Step {
  const Fusion* fusion = nullptr;
  std::vector<Chain> chains;
};

/// The steps of a plan in an order that keeps every dependence through memory. Values without readers and the graph's
/// results are always stored. The plan's graph must outlive the steps.
std::vector<Step> schedule(const Plan& plan);

/// Puts the kernels of a node, of a step on the stream.
void launch(const NodeCall& call, Context& context);
void launch(const Step& step, Context& context);

/// "add": one node; "elements(add, gelu)": a chain; "optimizer(clip, adamw) x 40".
std::string to_string(const Step& step);

}  // namespace fp4sim::gpu
