// Reverse-mode differentiation of a graph: gradient nodes are appended, by one table of rules keyed by op.
#pragma once

#include <map>
#include <string>

#include "reference/contract/graph.h"

namespace fp4sim::train {

/// Gradient values by the value they belong to.
using Gradients = std::map<ValueId, ValueId>;

/// Appends the backward nodes of nodes [first, last) and returns the gradient of every value they reach.
/// `seeds` holds gradients given from outside (the logits'). Contributions to one value are added in reverse order of
/// its uses: the last use's gradient is the first term (so a tied head comes before the embedding, numerics.md §7).
/// Products get names "<layer>/dgrad" (gradient of operand a) and "<layer>/wgrad" (of operand b) and the roles of
/// their operands; the incoming gradient has role dy. Throws Error for an op without a rule.
Gradients add_backward(Graph& graph, size_t first, size_t last, const Gradients& seeds);

/// True if the op has a gradient rule; false if the table says "none" (gradient ops, quantization, optimizer).
bool has_gradient_rule(Op op);

}  // namespace fp4sim::train
