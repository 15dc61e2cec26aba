#include "cli/commands/graph_runner.h"

#include "reference/contract/error.h"

namespace fp4sim::cli {

void GraphRunner::run(const Graph& graph, const std::vector<std::vector<HostPart>>& inputs) {
  validate(graph);
  owned_.resize(graph.values.size());
  tensors_.resize(graph.values.size());
  size_t next = 0;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ValueType& type = graph.values[v].type;
    if (owned_[v].buffer == nullptr || !(owned_[v].tensor.type == type)) {
      owned_[v] = OwnedTensor{};  // the old memory first: both would not always fit
      owned_[v] = allocate_tensor(backend_, type);
      tensors_[v] = owned_[v].tensor;
    }
    if (graph.values[v].kind != ValueKind::input) continue;
    const std::vector<HostPart>& parts = inputs.at(next++);
    for (size_t p = 0; p < parts.size(); ++p) {
      const Part& to = tensors_[v].parts[p];
      if (to.bytes != static_cast<int64_t>(parts[p].size())) throw Error("a value of another size than its type");
      if (to.bytes > 0) backend_.upload(to, parts[p].data(), to.bytes);
    }
  }
  backend_.compile({graph, tensors_})->run();
  backend_.synchronize();
}

}  // namespace fp4sim::cli
