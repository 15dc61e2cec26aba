// Steps on several streams: steps without dependence through memory run side by side, and each waits for exactly those
// that it depends on.
#pragma once

#include <vector>

#include "gpu/schedule.h"

namespace fp4sim::gpu {

/// Where a step runs, and the steps of other lanes that it waits for; a lane runs its steps in order.
struct Placement {
  size_t lane;
  std::vector<size_t> waits;
};

/// A placement for each step on at most `lanes` lanes. A step stays on the lane of the latest step that it depends on
/// unless that lane has gone on; then it takes the lane that has waited longest.
std::vector<Placement> place(const std::vector<Step>& steps, size_t lanes);

}  // namespace fp4sim::gpu
