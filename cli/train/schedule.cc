#include "cli/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/contract/error.h"
#include "reference/contract/host_math.h"

namespace fp4sim::train {
namespace {

// Each takes the progress after warm-up in [0, 1] and gives a fraction of the peak.
double constant(double) { return 1.0; }
double cosine(double t) { return 0.1 + 0.9 * (0.5 * (1.0 + host_math::cos64(0x1.921fb54442d18p+1 * t))); }
double wsd(double t) { return t <= 0.8 ? 1.0 : 1.0 - 0.99 * ((t - 0.8) / 0.2); }

struct Row {
  const char* name;
  double (*fraction)(double);
};
constexpr Row kSchedules[] = {{"constant", constant}, {"cosine", cosine}, {"wsd", wsd}};

}  // namespace

double learning_rate(const Schedule& s, int64_t step) {
  const auto row =
      std::find_if(std::begin(kSchedules), std::end(kSchedules), [&](const Row& r) { return s.kind == r.name; });
  if (row == std::end(kSchedules)) throw UsageError("unknown schedule `" + s.kind + "` (constant, cosine, wsd)");
  if (!(s.lr >= 0 && s.lr < 1e6)) throw UsageError(fmt::format("lr must be in [0, 1e6), got {}", s.lr));
  if (!(s.warmup >= 0 && s.warmup <= 1)) throw UsageError(fmt::format("warmup must be in [0, 1], got {}", s.warmup));
  const auto warm = static_cast<int64_t>(std::ceil(s.warmup * static_cast<double>(s.steps)));
  if (step < warm) return s.lr * (static_cast<double>(step + 1) / static_cast<double>(warm));
  const int64_t rest = std::max<int64_t>(s.steps - warm - 1, 1);
  return s.lr * row->fraction(std::min(1.0, static_cast<double>(step - warm) / static_cast<double>(rest)));
}

}  // namespace fp4sim::train
