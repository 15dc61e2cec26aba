// Learning-rate schedules (training.md): one row each, a fraction of the peak as a function of progress.
#pragma once

#include <cstdint>
#include <string>

namespace fp4sim::train {

struct Schedule {
  std::string kind = "cosine";  // constant | cosine | wsd
  double lr = 1e-3;             // peak
  double warmup = 0.05;         // fraction of the steps, linear from lr/w to lr over w = ceil(warmup·steps) steps
  int64_t steps = 1000;
};

/// The binary64 learning rate of a step (0-based): constant; cosine to 10 % of the peak; wsd: constant, then linear to
/// 1 % over the last 20 % of the steps. Throws UsageError for an unknown kind or parameters out of range.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace fp4sim::train
