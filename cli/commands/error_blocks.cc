// fp4sim error blocks: how the relative error depends on method, block size, scale format and magnitude.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include "cli/commands/error.h"
#include "cli/commands/error_statistics.h"
#include "cli/commands/work_progress.h"
#include "cli/train/executor.h"
#include "reference/contract/error.h"
#include "reference/contract/estimator.h"
#include "reference/contract/text_cursor.h"

namespace fp4sim::cli {

const char* const kBlocksHelp =
    "The tensor x times 2^m is quantized and decoded: X = x*2^m, Y = the decoded value.\n"
    "Columns:\n"
    "  scale, method, block  as given; soft(b): the forward value is the sum of sigmoids of steepness b (numerics.md "
    "5)\n"
    "  magnitude    m\n"
    "  rel_error    sqrt(sum (Y-X)^2) / sqrt(sum X^2)\n"
    "  rel_l1       sum |Y-X| / sum |X|\n"
    "  rel_mean     mean of |Y-X|/|X| over X != 0\n"
    "  flushed      share of X != 0 with Y = 0\n"
    "  from_hard    sqrt(sum (Y-H)^2) / sqrt(sum H^2), H = the decoded value of method hard";

namespace {

/// A forward value: hard quantization, or the estimator whose soft forward value is taken.
struct Method {
  std::string name;
  std::optional<Estimator> soft;
};

Method parse_method(const std::string& text) {
  if (text == "hard") return {text, {}};
  const bool number = text.find_first_not_of("0123456789.e+-") == std::string::npos;
  Estimator estimator = parse_estimator(number ? "soft(" + text + ")" : text);
  if (estimator.kind != EstimatorKind::soft) throw UsageError("--methods takes hard, or the beta of soft, got " + text);
  estimator.soft_forward = true;
  return {"soft(" + shortest_text(estimator.beta) + ")", estimator};
}

QuantSpec spec_of(const BlocksOptions& o, const std::string& scale, const std::string& block) {
  const bool number = block.find_first_not_of("0123456789") == std::string::npos;
  const QuantSpec spec =
      parse_quant_spec(fmt::format("{}:{}{}:{}:{}", o.element, number ? "b" : "", block, scale, o.rounding));
  if (is_stochastic(spec.rounding)) throw UsageError("--rounding takes a deterministic rounding, got " + o.rounding);
  require_computable(spec);
  if (spec.element.bits > 8) throw UsageError("--element takes a format of at most 8 bits, got " + o.element);
  return spec;
}

int parse_magnitude(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < -126 || value > 127)
    throw UsageError("--magnitudes takes whole exponents of two from -126 to 127, got " + text);
  return value;
}

/// x·2^m, which must be exact.
std::vector<float> times_power_of_two(const ErrorData& data, int m) {
  const float factor = std::bit_cast<float>(static_cast<uint32_t>(m + 127) << 23);
  std::vector<float> scaled;
  for (const float x : data.values) {
    scaled.push_back(x * factor);
    if (static_cast<double>(scaled.back()) != static_cast<double>(x) * factor)
      throw Error(fmt::format("{}: {} times 2^{} is no binary32 number", data.source, x, m));
  }
  return scaled;
}

/// x → quantize → the forward value of every method, as one graph on the backend.
class Forward {
 public:
  Forward(Backend& backend, const Shape& shape, const QuantSpec& spec, const std::vector<Method>& methods)
      : store_(backend), executor_(backend, build(shape, spec, methods), store_) {}

  void run(const std::vector<float>& x) {
    executor_.set_input(0, x.data(), static_cast<int64_t>(x.size() * sizeof(float)));
    executor_.run();
  }
  std::vector<float> hard() { return executor_.read(executor_.graph().results[0]); }
  std::vector<float> of_method(size_t method) { return executor_.read(executor_.graph().results[method + 1]); }

 private:
  static Graph build(const Shape& shape, const QuantSpec& spec, const std::vector<Method>& methods) {
    Graph graph;
    const ValueId x = add_value(graph, {DType::f32, shape, {}, Axis::last}, ValueKind::input, "x");
    const Attrs quantize{{"spec", to_string(spec)}, {"axis", std::string("last")}};
    const ValueId q = add_node(graph, Op::quantize, {x}, quantize, "quantize").front();
    const ValueId hard = add_node(graph, Op::dequantize, {q}, {}, "hard").front();
    graph.results = {hard};
    for (const Method& method : methods)
      graph.results.push_back(
          method.soft
              ? add_node(graph, Op::soft_forward, {x, q}, {{"estimator", to_string(*method.soft)}}, method.name).front()
              : hard);
    return graph;
  }

  train::ValueStore store_;
  train::Executor executor_;
};

}  // namespace

Table run_blocks(const BlocksOptions& o, const ErrorData& data, Backend& backend) {
  const std::vector<std::string> scales = split_list(o.scales, "scales"), blocks = split_list(o.blocks, "blocks");
  std::vector<Method> methods;
  for (const std::string& text : split_list(o.methods, "methods")) methods.push_back(parse_method(text));
  std::vector<int> magnitudes;
  for (const std::string& text : split_list(o.magnitudes, "magnitudes")) magnitudes.push_back(parse_magnitude(text));
  std::vector<QuantSpec> specs;  // all are checked before the first is run
  for (const std::string& scale : scales)
    for (const std::string& block : blocks) specs.push_back(spec_of(o, scale, block));

  Table table{"relative error",
              {"scale", "method", "magnitude", "block", "rel_error", "rel_l1", "rel_mean", "flushed", "from_hard"},
              {}};
  table.rows.resize(specs.size() * methods.size() * magnitudes.size());
  WorkProgress progress("tables", static_cast<int64_t>(specs.size() * magnitudes.size()));
  for (size_t s = 0; s < specs.size(); ++s) {
    const size_t scale = s / blocks.size(), block = s % blocks.size();
    Forward forward(backend, data.shape, specs[s], methods);
    for (size_t m = 0; m < magnitudes.size(); ++m) {
      const std::vector<float> x = times_power_of_two(data, magnitudes[m]);
      forward.run(x);
      const std::vector<float> hard = forward.hard();
      for (size_t k = 0; k < methods.size(); ++k) {
        const std::vector<float> y = forward.of_method(k);
        const ErrorSums e = error_sums(x, y);
        // Printed in the order scale, method, magnitude, block: neighbouring lines are the block sizes.
        const size_t row = ((scale * methods.size() + k) * magnitudes.size() + m) * blocks.size() + block;
        table.rows[row] = {scales[scale],    methods[k].name,   int64_t{magnitudes[m]},
                           blocks[block],    relative_error(e), relative_l1(e),
                           mean_relative(e), flushed_share(e),  relative_error(error_sums(hard, y))};
      }
      progress.step();
    }
  }
  return table;
}

}  // namespace fp4sim::cli
