#include "cli/commands/quantize_call.h"

#include <string_view>

namespace fp4sim::cli {

Quantized run_quantize(GraphRunner& runner, const QuantizeCall& call) {
  const QuantSpec& spec = call.packed.spec;
  Graph graph;
  const std::vector<StepInfo> step{call.random.info()};
  const std::vector<float> amax{call.amax.value_or(0)};
  std::vector<std::vector<HostPart>> inputs{{std::as_bytes(call.values)}};
  std::vector<ValueId> in{add_value(graph, {DType::f32, call.packed.shape, {}, Axis::last}, ValueKind::input, "x")};
  if (is_stochastic(spec.rounding) || call.amax) {
    in.push_back(add_value(graph, step_type(), ValueKind::input, "step"));
    inputs.push_back({host_part(step)});
  }
  if (call.amax) {
    in.push_back(add_value(graph, {DType::f32, {}, {}, Axis::last}, ValueKind::input, "amax"));
    inputs.push_back({host_part(amax)});
  }
  const Attrs attrs{{"spec", to_string(spec)},
                    {"axis", std::string(to_string(call.packed.axis))},
                    {"stream", static_cast<int64_t>(call.random.stream)},
                    {"row_offset", call.row_offset}};
  const ValueId q = add_node(graph, Op::quantize, in, attrs, "quantize")[0];
  graph.results = {q};
  if (call.decode) graph.results.push_back(add_node(graph, Op::dequantize, {q}, {}, "dequantize")[0]);
  runner.run(graph, inputs);

  Quantized out;
  const std::vector<PartLayout> parts = part_layouts(call.packed);
  for (int p = 0; p < static_cast<int>(parts.size()); ++p) {
    const std::string_view name = parts[static_cast<size_t>(p)].name;
    if (name == "codes") out.codes = runner.part<uint8_t>(q, p);
    if (name == "scales") out.scales = runner.part<std::byte>(q, p);
    if (name == "tensor_scale") out.tensor_scale = runner.part<float>(q, p)[0];
    if (name == "bias") out.bias = runner.part<int32_t>(q, p)[0];
  }
  if (call.decode) out.decoded = runner.part<float>(graph.results[1]);
  return out;
}

}  // namespace fp4sim::cli
