// The progress of a training run: one line that is rewritten on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>

#include "cli/train/trainer.h"

namespace fp4sim::cli {

class Progress {
 public:
  /// Begins at step `done` of `steps`; `talk` false prints nothing.
  Progress(int64_t done, int64_t steps, int64_t tokens_a_step, bool talk);
  void step(const train::StepReport& report);
  /// Ends the rewritten line.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  int64_t first_, steps_, tokens_a_step_;
  bool talk_, terminal_;
  Clock::time_point begin_, shown_;
  double smooth_loss_ = 0;
  bool open_line_ = false;
};

}  // namespace fp4sim::cli
