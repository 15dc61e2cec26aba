// The progress of work with a known number of steps, on stderr, so that stdout holds the result alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fp4sim::cli {

/// Says nothing in the first second; then one line that is rewritten on a terminal, or a line every five seconds.
class WorkProgress {
 public:
  /// `unit` names the steps: "tables".
  WorkProgress(std::string unit, int64_t steps);
  /// Erases the line of a terminal.
  ~WorkProgress();
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  /// To be called after each step.
  void step();

 private:
  using Clock = std::chrono::steady_clock;
  std::string unit_;
  int64_t steps_, done_ = 0;
  bool terminal_, open_line_ = false;
  Clock::time_point begin_, shown_;
};

}  // namespace fp4sim::cli
