#include "cli/commands/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace fp4sim::cli {
namespace {

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

Progress::Progress(int64_t done, int64_t steps, int64_t tokens_a_step, bool talk)
    : first_(done),
      steps_(steps),
      tokens_a_step_(tokens_a_step),
      talk_(talk),
      terminal_(isatty(STDOUT_FILENO) != 0),
      begin_(Clock::now()),
      shown_(begin_ - std::chrono::hours(1)) {}

void Progress::step(const train::StepReport& r) {
  // The shown loss is smoothed over about 20 steps; metrics.jsonl has every step's own.
  smooth_loss_ = r.step == first_ + 1 ? r.loss : smooth_loss_ + (r.loss - smooth_loss_) * 0.05;
  if (!talk_) return;
  const Clock::time_point now = Clock::now();
  const bool last = r.step == steps_, measured = r.val_loss.has_value();
  const auto interval = terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000);
  if (!last && !measured && r.step != first_ + 1 && now - shown_ < interval) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double per_step = seconds / static_cast<double>(r.step - first_);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}  lr {:.2e}  |g| {:.3f}  {:.0f} tokens/s  {} left", r.step,
                                 std::to_string(steps_).size(), steps_, smooth_loss_, r.lr, r.grad_norm,
                                 static_cast<double>(tokens_a_step_) / per_step,
                                 duration(per_step * static_cast<double>(steps_ - r.step)));
  if (measured) line += fmt::format("  val {:.4f}", *r.val_loss);
  if (terminal_) {
    fmt::print("\r\x1b[K{}{}", line, measured ? "\n" : "");
    open_line_ = !measured;
  } else {
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

void Progress::finish() {
  if (open_line_) fmt::print("\n");
  open_line_ = false;
}

}  // namespace fp4sim::cli
