// fp4sim error estimators: forward value and derivative of gradient estimators against y.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands/error.h"
#include "cli/commands/error_statistics.h"
#include "cli/train/executor.h"
#include "reference/contract/error.h"
#include "reference/contract/estimator.h"

namespace fp4sim::cli {

const char* const kEstimatorsHelp =
    "y = the number given to encode. Without --dist or --tensor y runs from --from to --to; with one of them y takes "
    "its\n"
    "values in ascending order.\n"
    "Columns:\n"
    "  estimator    with all its parameters\n"
    "  y            the number, in binary32\n"
    "  forward      the decoded code of y (rne, saturating), or the soft value with forward=soft\n"
    "  derivative   the gradient that comes out for the gradient --gradient at y\n"
    "Columns of --summary, one row an estimator, over all points:\n"
    "  points; mean, min, max of the derivative; zeros: the share of derivatives that are 0;\n"
    "  rms_error    sqrt(mean (forward-y)^2)";

namespace {

/// The graph's inputs in order of their values: y and the gradient; its results: forward and derivative by estimator.
Graph build(const EstimatorsOptions& o, const std::vector<Estimator>& estimators, int64_t points) {
  const QuantSpec spec = parse_quant_spec(o.element + ":none");
  if (spec.element.bits > 8) throw UsageError("--element takes a format of at most 8 bits, got " + o.element);
  const ValueType type{DType::f32, {points}, {}, Axis::last};
  Graph graph;
  const ValueId y = add_value(graph, type, ValueKind::input, "y");
  const ValueId gradient = add_value(graph, type, ValueKind::input, "gradient");
  const Attrs quantize{{"spec", to_string(spec)}, {"axis", std::string("last")}};
  const ValueId q = add_node(graph, Op::quantize, {y}, quantize).front();
  const ValueId hard = add_node(graph, Op::dequantize, {q}, {}).front();
  for (const Estimator& estimator : estimators) {
    const Attrs attrs{{"estimator", to_string(estimator)}};
    const ValueId forward = estimator.soft_forward ? add_node(graph, Op::soft_forward, {y, q}, attrs).front() : hard;
    graph.results.push_back(forward);
    graph.results.push_back(add_node(graph, Op::estimator_grad, {gradient, y, q}, attrs).front());
  }
  return graph;
}

using Curve = std::vector<float>;

void add_curve(Table& table, const std::string& name, const Curve& y, const Curve& forward, const Curve& derivative) {
  for (size_t i = 0; i < y.size(); ++i)
    table.rows.push_back(
        {name, static_cast<double>(y[i]), static_cast<double>(forward[i]), static_cast<double>(derivative[i])});
}

void add_summary(Table& table, const std::string& name, const Curve& y, const Curve& forward, const Curve& derivative) {
  const auto [least, greatest] = std::minmax_element(derivative.begin(), derivative.end());
  const auto zeros = std::count(derivative.begin(), derivative.end(), 0.0f);
  table.rows.push_back({name, static_cast<int64_t>(y.size()), moments(derivative).mean, static_cast<double>(*least),
                        static_cast<double>(*greatest), static_cast<double>(zeros) / static_cast<double>(y.size()),
                        std::sqrt(mean_squared_error(error_sums(y, forward)))});
}

}  // namespace

ErrorData estimator_grid(const EstimatorsOptions& o) {
  constexpr int64_t kMaxPoints = 100'000'000;
  if (o.points < 2 || o.points > kMaxPoints)
    throw UsageError(fmt::format("--points must be from 2 to {}, got {}", kMaxPoints, o.points));
  if (!(std::abs(o.from) <= 1e30 && std::abs(o.to) <= 1e30 && o.from < o.to))
    throw UsageError(fmt::format("--from must be below --to, both finite, got {} and {}", o.from, o.to));
  ErrorData grid{fmt::format("{} to {}", o.from, o.to), {o.points}, {}};
  for (int64_t i = 0; i < o.points; ++i)
    grid.values.push_back(
        static_cast<float>(o.from + (o.to - o.from) * static_cast<double>(i) / static_cast<double>(o.points - 1)));
  return grid;
}

Table run_estimators(const EstimatorsOptions& o, const ErrorData& data, Backend& backend) {
  std::vector<Estimator> estimators;
  for (const std::string& text : split_list(o.estimators, "estimators")) estimators.push_back(parse_estimator(text));
  if (!std::isfinite(static_cast<float>(o.gradient)))
    throw UsageError(fmt::format("--gradient must be a finite binary32 number, got {}", o.gradient));
  Curve y = data.values;
  std::stable_sort(y.begin(), y.end());
  const Curve gradient(y.size(), static_cast<float>(o.gradient));
  const auto bytes = static_cast<int64_t>(y.size() * sizeof(float));
  train::ValueStore store(backend);
  train::Executor executor(backend, build(o, estimators, static_cast<int64_t>(y.size())), store);
  executor.set_input(0, y.data(), bytes);
  executor.set_input(1, gradient.data(), bytes);
  executor.run();
  const std::vector<ValueId>& results = executor.graph().results;
  Table table{"estimators", {"estimator", "y", "forward", "derivative"}, {}};
  if (o.summary) table.columns = {"estimator", "points", "mean", "min", "max", "zeros", "rms_error"};
  for (size_t e = 0; e < estimators.size(); ++e)
    (o.summary ? add_summary : add_curve)(table, to_string(estimators[e]), y, executor.read(results[2 * e]),
                                          executor.read(results[2 * e + 1]));
  return table;
}

}  // namespace fp4sim::cli
