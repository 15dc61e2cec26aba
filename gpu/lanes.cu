#include "gpu/lanes.h"

#include <algorithm>

#include "gpu/accesses.h"

namespace fp4sim::gpu {
namespace {

constexpr size_t kNone = 0;  // clocks count steps from 1

/// For each lane the latest step that is over for certain, counted from 1.
using Clock = std::vector<size_t>;

}  // namespace

std::vector<Placement> place(const std::vector<Step>& steps, size_t lanes) {
  std::vector<std::vector<Access>> touched;
  for (const Step& step : steps) touched.push_back(accesses(step));
  std::vector<Placement> placements;
  std::vector<Clock> after;  // what is over once a step is over
  Clock tails(lanes, kNone);
  for (size_t s = 0; s < steps.size(); ++s) {
    std::vector<size_t> depends;  // latest first
    for (size_t d = s; d-- > 0;)
      if (conflict(touched[s], touched[d])) depends.push_back(d);
    Placement placement{0, {}};
    const size_t latest = depends.empty() ? kNone : depends.front() + 1;
    if (latest != kNone && tails[placements[latest - 1].lane] == latest)
      placement.lane = placements[latest - 1].lane;
    else
      placement.lane = static_cast<size_t>(std::ranges::min_element(tails) - tails.begin());
    Clock clock(lanes, kNone);
    if (tails[placement.lane] != kNone) clock = after[tails[placement.lane] - 1];
    for (const size_t d : depends) {
      if (d + 1 <= clock[placements[d].lane]) continue;  // over already
      placement.waits.push_back(d);
      for (size_t lane = 0; lane < lanes; ++lane) clock[lane] = std::max(clock[lane], after[d][lane]);
    }
    clock[placement.lane] = tails[placement.lane] = s + 1;
    placements.push_back(std::move(placement));
    after.push_back(std::move(clock));
  }
  return placements;
}

}  // namespace fp4sim::gpu
