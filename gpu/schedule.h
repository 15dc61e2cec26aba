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

constexpr size_t kReach = 24;  // steps that a node may pass by to join another

/// What the graph says about a product besides its types.
struct Known {
  bool a_lower = false;       // input 0 has +0 above the diagonal of each matrix: a causal softmax or its gradient
  bool upper_unread = false;  // only causal softmaxes and gradients read the result: nothing above the diagonal

  bool operator==(const Known&) const = default;
};

/// Nodes that run as one: each reads the first output of the one before it, or what the row's own rule says.
struct Chain {
  std::vector<BoundNode> nodes;
  std::vector<bool> stored;  // of each node: somebody outside of the chain sees its first output, so it must be written
  Known known;               // about the first node, if it is a matmul
};

/// A row of the table. A chain grows from one node, or from a chain of the row `from`, by nodes that it leads to
/// (`reads`) while `extends` agrees; what it is then must be `complete`.
struct Fusion {
  const char* name;
  const Fusion* from = nullptr;
  bool in_place;  // the kernels take all inputs of an element before they write any output there
  bool (*starts)(const NodeCall& first);
  bool (*reads)(const Chain& chain, const Node& next) = nullptr;  // nullptr: the last node's first output, once, and
                                                                  // nothing else that the chain gives
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
