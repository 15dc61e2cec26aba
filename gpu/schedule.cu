#include "gpu/schedule.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "gpu/accesses.h"
#include "gpu/fusions.h"
#include "gpu/ops.h"

namespace fp4sim::gpu {
namespace {

using Entry = void (*)(const NodeCall&, Context&);

constexpr Entry kOpsTable[] = {
#define FP4SIM_OP(id, inputs, outputs) &ops::id,
#include "reference/contract/op.def"
#undef FP4SIM_OP
};
static_assert(sizeof(kOpsTable) / sizeof(kOpsTable[0]) == kOpCount);

/// In the order in which they are tried.
constexpr const Fusion* kFusions[] = {&kOptimizer, &kQuantizeBoth,    &kProduct,   &kNormGradSums,
                                      &kElements,  &kElementsAndNorm, &kNormTiles, &kTiles};

/// True if one kernel may do all of this: no write covers an input, or where the kernel works in place, it covers that
/// exactly.
bool safe_inside(const std::vector<Access>& list, bool in_place) {
  for (const Access& x : list)
    for (const Access& y : list)
      if (&x != &y && x.write && overlap(x, y) && !(in_place && x.begin == y.begin && x.end == y.end)) return false;
  return true;
}

/// Which values are triangles, and of which only a triangle is read.
class Triangles {
 public:
  explicit Triangles(const Graph& graph) : lower_(graph.values.size()), upper_unread_(graph.values.size()) {
    std::vector<bool> read(graph.values.size());
    for (size_t v = 0; v < graph.values.size(); ++v) upper_unread_[v] = graph.values[v].kind == ValueKind::temporary;
    for (const ValueId v : graph.results) upper_unread_[static_cast<size_t>(v)] = false;
    for (const Node& node : graph.nodes) {
      const bool causal = node.op == Op::causal_softmax || node.op == Op::causal_softmax_grad;
      if (causal) lower_[static_cast<size_t>(node.outputs[0])] = true;
      for (const ValueId v : node.inputs) {
        read[static_cast<size_t>(v)] = true;
        if (!causal) upper_unread_[static_cast<size_t>(v)] = false;
      }
    }
    for (size_t v = 0; v < read.size(); ++v) upper_unread_[v] = upper_unread_[v] && read[v];
  }

  Known known_of(const Node& node) const {
    if (node.op != Op::matmul) return {};
    return {lower_[static_cast<size_t>(node.inputs[0])], upper_unread_[static_cast<size_t>(node.outputs[0])]};
  }

 private:
  std::vector<bool> lower_, upper_unread_;  // by value
};

class Scheduler {
 public:
  explicit Scheduler(const Plan& plan) : plan_(plan), readers_(plan.graph.values.size()) {
    const Triangles triangles(plan.graph);
    for (const Node& node : plan.graph.nodes) {
      for (const ValueId v : node.inputs) ++readers_[static_cast<size_t>(v)];
      steps_.push_back({nullptr, {{{bind(plan, node)}, {true}, triangles.known_of(node)}}});
    }
    for (const ValueId v : plan.graph.results) ++readers_[static_cast<size_t>(v)];
  }

  std::vector<Step> run() {
    for (const Fusion* fusion : kFusions) {
      for (size_t at = 0; at < steps_.size();) at = grow(*fusion, at);
      for (size_t at = 0; at < steps_.size();) at = steps_[at].fusion == fusion ? gather(at) : at + 1;
    }
    return std::move(steps_);
  }

 private:
  /// Grows a chain from the step at `at` as far as it goes; returns the next step to look at.
  size_t grow(const Fusion& fusion, size_t at) {
    if (steps_[at].fusion != nullptr && steps_[at].fusion != fusion.from) return at + 1;
    if (steps_[at].chains.size() != 1 || !fusion.starts(steps_[at].chains[0].nodes[0].call())) return at + 1;
    Growth growth{steps_[at].chains[0], at, {}};
    while (extend(fusion, growth)) {
    }
    if (!fusion.complete(growth.chain)) return at + 1;
    const bool waits = growth.at != at;
    apply(fusion, std::move(growth), at);
    return waits ? at : at + 1;
  }

  /// A chain while it grows: where it would run, and the steps that it has taken, in ascending order.
  struct Growth {
    Chain chain;
    size_t at;
    std::vector<size_t> taken;
  };

  bool extend(const Fusion& fusion, Growth& growth) const {
    const size_t last = growth.taken.empty() ? growth.at : growth.taken.back();
    for (size_t to = last + 1; to < std::min(steps_.size(), last + 1 + kReach); ++to) {
      if (steps_[to].fusion != nullptr) continue;
      const BoundNode& next = steps_[to].chains[0].nodes[0];
      const auto reads = fusion.reads != nullptr ? fusion.reads : reads_last;
      if (!reads(growth.chain, *next.node) || !fusion.extends(growth.chain, next.call())) continue;
      Growth grown = growth;
      grown.chain.nodes.push_back(next);
      grown.chain.stored.push_back(true);
      for (size_t k = 0; k < grown.chain.nodes.size(); ++k) grown.chain.stored[k] = seen_outside(grown.chain, k);
      // What the chain does before it reaches the next node's place, and what that node does.
      const Chain before{growth.chain.nodes, {grown.chain.stored.begin(), grown.chain.stored.end() - 1}, {}};
      const std::vector<Access> waiting = accesses(before), coming = accesses(steps_[to]);
      if (!safe_inside(accesses(grown.chain), fusion.in_place)) continue;
      // Either the chain waits for the next node, or that node comes forward to the chain.
      if (passes(waiting, growth.at + 1, to, growth.taken)) {
        grown.at = to;
      } else if (!passes(coming, growth.at + 1, to, growth.taken)) {
        continue;
      }
      grown.taken.push_back(to);
      growth = std::move(grown);
      return true;
    }
    return false;
  }

  /// True if the node reads the first output of the chain's last node, once, and nothing else that the chain gives.
  static bool reads_last(const Chain& chain, const Node& next) {
    int64_t reads = 0;
    for (const BoundNode& node : chain.nodes)
      for (const ValueId v : node.node->outputs) reads += std::ranges::count(next.inputs, v);
    return reads == 1 && std::ranges::count(next.inputs, chain.nodes.back().node->outputs[0]) == 1;
  }

  /// True if somebody outside of the chain sees the first output of its node k, or nobody at all.
  bool seen_outside(const Chain& chain, size_t k) const {
    const ValueId v = chain.nodes[k].node->outputs[0];
    int64_t inside = 0;
    for (const BoundNode& node : chain.nodes) inside += std::ranges::count(node.node->inputs, v);
    return inside == 0 || plan_.graph.values[static_cast<size_t>(v)].kind != ValueKind::temporary ||
           readers_[static_cast<size_t>(v)] != inside;
  }

  /// True if a step with these accesses may run before or after the steps [from, to), those of `skip` left out.
  bool passes(const std::vector<Access>& list, size_t from, size_t to, const std::vector<size_t>& skip) const {
    for (size_t s = from; s < to; ++s)
      if (std::ranges::count(skip, s) == 0 && conflict(list, accesses(steps_[s]))) return false;
    return true;
  }

  /// Puts a grown chain in place of the step at `at` and of those that it took.
  void apply(const Fusion& fusion, Growth growth, size_t at) {
    steps_[growth.at] = {&fusion, {std::move(growth.chain)}};
    std::vector<size_t> gone = std::move(growth.taken);
    gone.push_back(at);
    std::ranges::sort(gone, std::greater<>());
    for (const size_t s : gone)
      if (s != growth.at) steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(s));
  }

  /// Joins the step at `at` and later chains of the same row: these come forward to it, or it waits for them. Returns
  /// the next step to look at.
  size_t gather(size_t at) {
    const Fusion* fusion = steps_[at].fusion;
    std::vector<Access> whole = accesses(steps_[at]);
    size_t waited = 0;  // steps that it let pass
    for (size_t to = at + 1;
         to < std::min(steps_.size(), at + 1 + kReach) && steps_[at].chains.size() < fusion->together;) {
      if (steps_[to].fusion != fusion || steps_[to].chains.size() != 1 ||
          !fusion->joins(steps_[at].chains[0], steps_[to].chains[0])) {
        ++to;
        continue;
      }
      const std::vector<Access> own = accesses(steps_[to]);
      const bool apart = !conflict(whole, own);
      if (apart && passes(own, at + 1, to, {})) {
        steps_[at].chains.push_back(std::move(steps_[to].chains[0]));
        steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(to));
      } else if (apart && passes(whole, at + 1, to, {})) {
        steps_[at].chains.push_back(std::move(steps_[to].chains[0]));
        steps_[to] = std::move(steps_[at]);
        steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(at));
        waited += to - 1 - at;
        at = to - 1;
      } else {
        ++to;
        continue;
      }
      whole.insert(whole.end(), own.begin(), own.end());
    }
    const Chain& first = steps_[at].chains[0];
    const bool alone = steps_[at].chains.size() == 1 && first.nodes.size() == 1;
    if (alone && first.known == Known{}) steps_[at].fusion = nullptr;  // nothing joined
    return at + 1 - waited;
  }

  const Plan& plan_;
  std::vector<int64_t> readers_;  // of each value: inputs of nodes, and the caller
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> schedule(const Plan& plan) { return Scheduler(plan).run(); }

void launch(const NodeCall& call, Context& context) { kOpsTable[static_cast<int>(call.node.op)](call, context); }

void launch(const Step& step, Context& context) {
  if (step.fusion != nullptr) return step.fusion->launch(step.chains, context);
  launch(step.chains[0].nodes[0].call(), context);
}

std::string to_string(const Step& step) {
  std::string ops;
  for (const BoundNode& node : step.chains[0].nodes)
    ops += (ops.empty() ? "" : ", ") + std::string(op_name(node.node->op));
  if (step.fusion == nullptr) return ops;
  const std::string chain = step.fusion->name + ("(" + ops + ")");
  return step.chains.size() == 1 ? chain : chain + " x " + std::to_string(step.chains.size());
}

}  // namespace fp4sim::gpu
