// fp4sim error occ: what outlier clamping and compensation (numerics.md §6) do to a tensor.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/error.h"
#include "cli/commands/error_statistics.h"
#include "cli/commands/work_progress.h"
#include "cli/train/executor.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {

const char* const kOccHelp =
    "Y = the decoded value of x by --spec: of x itself (no clamp), of x clamped to its quantiles (clamp), and with "
    "the\n"
    "residual added back (clamp+compensation).\n"
    "Columns:\n"
    "  method, alpha, residual  as above; the quantiles are alpha and 1-alpha of each row, or of the tensor\n"
    "  sparsity     share of elements that the clamp changes: the entries of the residual\n"
    "  cosine       sum xY / (sqrt(sum x^2) sqrt(sum Y^2))\n"
    "  mse          mean of (Y-x)^2\n"
    "  snr_db       10 log10(sum x^2 / sum (Y-x)^2)";

namespace {

struct OccRow {
  std::string method;
  double alpha = 1;
  std::string residual = "none";
  ValueId value = kNoValue;
  ValueId clamped = kNoValue;  // kNoValue: x itself
};

/// x → the decoded values of every row, as one graph.
struct OccGraph {
  Graph graph;
  std::vector<OccRow> rows;
};

ValueId add_decoded(Graph& graph, ValueId x, const QuantSpec& spec) {
  const Attrs attrs{{"spec", to_string(spec)}, {"axis", std::string("last")}};
  const ValueId q = add_node(graph, Op::quantize, {x}, attrs).front();
  return add_node(graph, Op::dequantize, {q}, {}).front();
}

QuantSpec plain_spec(const std::string& text) {
  const QuantSpec spec = parse_quant_spec(text);
  if (is_stochastic(spec.rounding) || spec.sr34 || spec.occ.enabled || spec.hadamard.n != 0)
    throw UsageError("--spec takes a deterministic spec without transforms, got " + text);
  require_computable(spec);
  return spec;
}

OccGraph build(const OccOptions& o, const Shape& shape) {
  const QuantSpec plain = plain_spec(o.spec);
  const std::vector<std::string> alphas = split_list(o.alphas, "alphas"),
                                 residuals = split_list(o.residuals, "residuals");
  if (o.quantiles != "row" && o.quantiles != "tensor")
    throw UsageError("--quantiles takes row or tensor, got " + o.quantiles);
  OccGraph result;
  Graph& graph = result.graph;
  const ValueId x = add_value(graph, {DType::f32, shape, {}, Axis::last}, ValueKind::input, "x");
  result.rows.push_back({"no clamp", 1, "none", add_decoded(graph, x, plain), kNoValue});
  for (const std::string& alpha : alphas) {
    ValueId clamped = kNoValue, decoded = kNoValue;
    for (const std::string& residual : residuals) {
      if (residual == "none") throw UsageError("--residuals: clamp without compensation is always shown");
      const QuantSpec spec = parse_quant_spec(fmt::format("{}+occ({},{},{})", o.spec, alpha, residual, o.quantiles));
      const auto split =
          add_node(graph, Op::occ_split, {x}, {{"spec", to_string(spec)}, {"axis", std::string("last")}});
      if (clamped == kNoValue) {
        clamped = split[0];
        decoded = add_decoded(graph, clamped, plain);
        result.rows.push_back({"clamp", spec.occ.alpha, "none", decoded, clamped});
      }
      const ValueId sum = add_node(graph, Op::add_residual, {decoded, split[1]}, {}).front();
      result.rows.push_back({"clamp+compensation", spec.occ.alpha, residual, sum, clamped});
    }
  }
  for (const OccRow& row : result.rows) {
    graph.results.push_back(row.value);
    if (row.clamped != kNoValue) graph.results.push_back(row.clamped);
  }
  return result;
}

double changed_share(const std::vector<float>& x, const std::vector<float>& y) {
  int64_t changed = 0;
  for (size_t i = 0; i < x.size(); ++i) changed += x[i] != y[i] ? 1 : 0;
  return static_cast<double>(changed) / static_cast<double>(x.size());
}

}  // namespace

Table run_occ(const OccOptions& o, const ErrorData& data, Backend& backend) {
  OccGraph built = build(o, data.shape);
  const std::vector<OccRow> rows = built.rows;
  train::ValueStore store(backend);
  train::Executor executor(backend, std::move(built.graph), store);
  executor.set_input(0, data.values.data(), static_cast<int64_t>(data.values.size() * sizeof(float)));
  executor.run();
  Table table{
      "outlier clamping and compensation", {"method", "alpha", "residual", "sparsity", "cosine", "mse", "snr_db"}, {}};
  WorkProgress progress("rows", static_cast<int64_t>(rows.size()));
  for (const OccRow& row : rows) {
    const ErrorSums e = error_sums(data.values, executor.read(row.value));
    const double sparsity = row.clamped == kNoValue ? 0 : changed_share(data.values, executor.read(row.clamped));
    table.rows.push_back({row.method, row.alpha, row.residual, sparsity, cosine(e), mean_squared_error(e), snr_db(e)});
    progress.step();
  }
  return table;
}

}  // namespace fp4sim::cli
