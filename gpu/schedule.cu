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
constexpr const Fusion* kFusions[] = {&kOptimizer,    &kQuantizeBoth, &kBiasAndPermute,
                                      &kNormGradSums, &kElements,     &kElementsAndNorm};

constexpr size_t kReach = 24;  // steps that a node may pass by to join another

/// True if one kernel may do all of this: no write covers an input, or where the kernel works in place, it covers that
/// exactly.
bool safe_inside(const std::vector<Access>& list, bool in_place) {
  for (const Access& x : list)
    for (const Access& y : list)
      if (&x != &y && x.write && overlap(x, y) && !(in_place && x.begin == y.begin && x.end == y.end)) return false;
  return true;
}

class Scheduler {
 public:
  explicit Scheduler(const Plan& plan) : plan_(plan), readers_(plan.graph.values.size()) {
    for (const Node& node : plan.graph.nodes) {
      for (const ValueId v : node.inputs) ++readers_[static_cast<size_t>(v)];
      steps_.push_back({nullptr, {{{bind(plan, node)}, {true}}}});
    }
    for (const ValueId v : plan.graph.results) ++readers_[static_cast<size_t>(v)];
  }

  std::vector<Step> run() {
    for (const Fusion* fusion : kFusions) {
      for (size_t at = 0; at < steps_.size(); ++at) at = grow(*fusion, at);
      for (size_t at = 0; at < steps_.size(); ++at)
        if (steps_[at].fusion == fusion) gather(at);
    }
    return std::move(steps_);
  }

 private:
  /// Grows a chain from the step at `at` as far as it goes; returns where the step is then.
  size_t grow(const Fusion& fusion, size_t at) {
    if (steps_[at].fusion != nullptr && steps_[at].fusion != fusion.from) return at;
    if (steps_[at].chains.size() != 1 || !fusion.starts(steps_[at].chains[0].nodes[0].call())) return at;
    Growth growth{steps_[at].chains[0], at, {}};
    while (extend(fusion, growth)) {
    }
    if (!fusion.complete(growth.chain)) return at;
    return apply(fusion, std::move(growth), at);
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
      if (!follows(growth.chain, *next.node) || !fusion.extends(growth.chain, next.call())) continue;
      Growth grown = growth;
      grown.chain.stored.back() = seen_outside(*growth.chain.nodes.back().node);
      const std::vector<Access> waiting = accesses(grown.chain), coming = accesses(steps_[to]);
      grown.chain.nodes.push_back(next);
      grown.chain.stored.push_back(true);
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
  static bool follows(const Chain& chain, const Node& next) {
    int64_t reads = 0;
    for (const BoundNode& node : chain.nodes)
      for (const ValueId v : node.node->outputs) reads += std::ranges::count(next.inputs, v);
    return reads == 1 && std::ranges::count(next.inputs, chain.nodes.back().node->outputs[0]) == 1;
  }

  /// True if somebody besides one reader in the chain sees the node's first output: another reader, or the caller.
  bool seen_outside(const Node& node) const {
    const auto v = static_cast<size_t>(node.outputs[0]);
    return plan_.graph.values[v].kind != ValueKind::temporary || readers_[v] != 1;
  }

  /// True if a step with these accesses may run before or after the steps [from, to), those of `skip` left out.
  bool passes(const std::vector<Access>& list, size_t from, size_t to, const std::vector<size_t>& skip) const {
    for (size_t s = from; s < to; ++s)
      if (std::ranges::count(skip, s) == 0 && conflict(list, accesses(steps_[s]))) return false;
    return true;
  }

  /// Puts a grown chain in place of the step at `at` and of those that it took; returns its place.
  size_t apply(const Fusion& fusion, Growth growth, size_t at) {
    steps_[growth.at] = {&fusion, {std::move(growth.chain)}};
    std::vector<size_t> gone = std::move(growth.taken);
    gone.push_back(at);
    std::ranges::sort(gone, std::greater<>());
    size_t place = growth.at;
    for (const size_t s : gone) {
      if (s == growth.at) continue;
      steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(s));
      if (s < growth.at) --place;
    }
    return place;
  }

  /// Brings later chains of the same row forward into the step at `at`.
  void gather(size_t at) {
    const Fusion* fusion = steps_[at].fusion;
    std::vector<Access> whole = accesses(steps_[at]);
    size_t to = at + 1;
    while (to < std::min(steps_.size(), at + 1 + kReach) && steps_[at].chains.size() < fusion->together) {
      if (steps_[to].fusion == fusion && fusion->joins(steps_[at].chains[0], steps_[to].chains[0])) {
        const std::vector<Access> own = accesses(steps_[to]);
        if (!conflict(whole, own) && passes(own, at + 1, to, {})) {
          steps_[at].chains.push_back(std::move(steps_[to].chains[0]));
          whole.insert(whole.end(), own.begin(), own.end());
          steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(to));
          continue;
        }
      }
      ++to;
    }
    const std::vector<Chain>& chains = steps_[at].chains;
    if (chains.size() == 1 && chains[0].nodes.size() == 1) steps_[at].fusion = nullptr;  // nothing joined
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
