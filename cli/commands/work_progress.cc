#include "cli/commands/work_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace fp4sim::cli {

WorkProgress::WorkProgress(std::string unit, int64_t steps)
    : unit_(std::move(unit)),
      steps_(steps),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(Clock::now()),
      shown_(begin_) {}

WorkProgress::~WorkProgress() {
  if (open_line_) std::fputs("\r\x1b[K", stderr);
}

void WorkProgress::step() {
  ++done_;
  const Clock::time_point now = Clock::now();
  const auto interval = terminal_ && open_line_ ? std::chrono::milliseconds(200)
                        : terminal_             ? std::chrono::milliseconds(1000)
                                                : std::chrono::milliseconds(5000);
  if (now - shown_ < interval) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double left = seconds / static_cast<double>(done_) * static_cast<double>(steps_ - done_);
  fmt::print(stderr, "{}{}/{} {}, {:.0f} s, {:.0f} s left{}", terminal_ ? "\r\x1b[K" : "", done_, steps_, unit_,
             seconds, left, terminal_ ? "" : "\n");
  std::fflush(stderr);
  open_line_ = terminal_;
}

}  // namespace fp4sim::cli
