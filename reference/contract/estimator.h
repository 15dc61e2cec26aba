// Gradient estimators (numerics.md §5): the backward multiplier m(y) of a quantizer, one row each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reference/contract/hd.h"

namespace fp4sim {

enum class EstimatorKind : uint8_t { ste, ste_clip, dge, soft, dsq, ewgs, quest };

/// An estimator with its parameters in binary64; parameters of other kinds stay at their defaults.
struct Estimator {
  EstimatorKind kind = EstimatorKind::ste;
  double k = 5;               // dge: exponent, > 1
  double clip = 3;            // dge: largest multiplier
  double eps = 0;             // dge: smoothing of |u| (arXiv 2501.17116 App. C.3)
  double beta = 20;           // soft: steepness
  double alpha = 0.2;         // dsq
  double delta = 0.1;         // ewgs
  bool soft_forward = false;  // soft(beta, forward=soft): the forward value is soft too
  friend bool operator==(const Estimator&, const Estimator&) = default;
};

/// Parses `ste`, `dge(k=5,clip=3)`, `dge(5,3)`, `soft(20)`, `soft(beta=20,forward=soft)` …; UsageError with the column.
Estimator parse_estimator(std::string_view text);

/// The canonical text form with every parameter of the kind.
std::string to_string(const Estimator& e);

struct EstimatorRow {
  const char* name;
  EstimatorKind kind;
  const char* parameters;  // names in positional order, comma separated
  const char* source;
};
inline constexpr EstimatorRow kEstimators[] = {
    {"ste", EstimatorKind::ste, "", "straight-through"},
    {"ste_clip", EstimatorKind::ste_clip, "", "straight-through inside max_normal"},
    {"dge", EstimatorKind::dge, "k,clip,eps", "arXiv 2501.17116 Eq. 8"},
    {"soft", EstimatorKind::soft, "beta,forward", "sum of sigmoids; Quantization Networks (CVPR 2019)"},
    {"dsq", EstimatorKind::dsq, "alpha", "arXiv 1908.05033"},
    {"ewgs", EstimatorKind::ewgs, "delta", "element-wise gradient scaling (CVPR 2021)"},
    {"quest", EstimatorKind::quest, "", "arXiv 2502.05003 trust mask"},
};

}  // namespace fp4sim
