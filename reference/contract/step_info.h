// What varies between steps: one small `step` tensor (u8, sizeof(StepInfo)) uploaded once a step.
#pragma once

#include <cstdint>

#include "reference/contract/value_type.h"

namespace fp4sim {

struct StepInfo {
  uint64_t seed = 0;
  uint32_t step = 0;       // first step 0: the Philox step word
  uint32_t skip = 0;       // adamw leaves parameters and states as they are
  double lr = 0;           // the schedule's binary64 value
  double beta1_power = 1;  // P_t of AdamW, t = step + 1
  double beta2_power = 1;
  float loss_scale = 1;  // a power of two
  float clip_norm = 0;   // in units of the norm given to clip (times loss_scale); +Inf: no clipping
};
static_assert(sizeof(StepInfo) == 48);

inline ValueType step_type() { return {DType::u8, {static_cast<int64_t>(sizeof(StepInfo))}, {}, Axis::last}; }

}  // namespace fp4sim
