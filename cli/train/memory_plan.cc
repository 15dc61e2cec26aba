#include "cli/train/memory_plan.h"

#include <algorithm>
#include <deque>
#include <map>

#include "reference/contract/backend.h"

namespace fp4sim::train {
namespace {

/// Free ranges of the arena by offset; neighbours are merged.
class Arena {
 public:
  int64_t take(int64_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < bytes) continue;
      const int64_t offset = it->first, rest = it->second - bytes;
      free_.erase(it);
      if (rest > 0) free_[offset + bytes] = rest;
      return offset;
    }
    int64_t offset = end_;
    // The last free range may reach the end: grow from there.
    if (!free_.empty() && free_.rbegin()->first + free_.rbegin()->second == end_) {
      offset = free_.rbegin()->first;
      free_.erase(std::prev(free_.end()));
    }
    end_ = offset + bytes;
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_[offset] = bytes;
  }

  int64_t size() const { return end_; }

 private:
  std::map<int64_t, int64_t> free_;
  int64_t end_ = 0;
};

/// Memory that rests since `node`.
struct Resting {
  size_t node;
  int64_t offset, bytes;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, size_t rest) {
  const size_t never = graph.nodes.size();
  std::vector<size_t> last_use(graph.values.size(), 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId v : graph.nodes[n].inputs) last_use[static_cast<size_t>(v)] = n;
    for (const ValueId v : graph.nodes[n].outputs)
      last_use[static_cast<size_t>(v)] = std::max(last_use[static_cast<size_t>(v)], n);
  }
  for (const ValueId v : graph.results) last_use[static_cast<size_t>(v)] = never;

  MemoryPlan plan;
  plan.offsets.assign(graph.values.size(), -1);
  Arena arena;
  const auto bytes_of = [&](ValueId v) { return planned_bytes(graph.type(v)); };
  const auto temporary = [&](ValueId v) { return graph.values[static_cast<size_t>(v)].kind == ValueKind::temporary; };
  std::deque<Resting> resting;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (; !resting.empty() && resting.front().node + rest < n; resting.pop_front())
      arena.give(resting.front().offset, resting.front().bytes);
    for (const ValueId v : node.outputs) {
      if (!temporary(v)) continue;
      plan.offsets[static_cast<size_t>(v)] = arena.take(bytes_of(v));
      plan.bytes_without_reuse += bytes_of(v);
    }
    std::vector<ValueId> touched = node.inputs;
    touched.insert(touched.end(), node.outputs.begin(), node.outputs.end());
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const ValueId v : touched)
      if (temporary(v) && last_use[static_cast<size_t>(v)] == n)
        resting.push_back({n, plan.offsets[static_cast<size_t>(v)], bytes_of(v)});
  }
  plan.bytes = arena.size();
  return plan;
}

}  // namespace fp4sim::train
