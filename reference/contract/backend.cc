#include "reference/contract/backend.h"

#include "reference/contract/error.h"

namespace fp4sim {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The portable program: one run call a node.
class LoopProgram final : public Program {
 public:
  LoopProgram(Backend& backend, const Plan& plan) : backend_(backend) {
    for (const Node& node : plan.graph.nodes) nodes_.push_back(bind(plan, node));
  }
  void run() override {
    for (const BoundNode& node : nodes_) backend_.run(node.call());
  }

 private:
  Backend& backend_;
  std::vector<BoundNode> nodes_;
};

/// A download that was over when it started.
class FinishedDownload final : public Download {
 public:
  void wait() override {}
};

}  // namespace

std::unique_ptr<Download> Backend::start_download(const Part& from, void* to, int64_t bytes) {
  download(from, to, bytes);
  return std::make_unique<FinishedDownload>();
}

std::unique_ptr<Program> Backend::compile(const Plan& plan) {
  for (const Node& node : plan.graph.nodes) {
    std::vector<ValueType> in, out;
    for (const ValueId v : node.inputs) in.push_back(plan.graph.type(v));
    for (const ValueId v : node.outputs) out.push_back(plan.graph.type(v));
    check(node, in, out);
  }
  return std::make_unique<LoopProgram>(*this, plan);
}

BoundNode bind(const Plan& plan, const Node& node) {
  BoundNode bound{&node, {}, {}};
  for (const ValueId v : node.inputs) bound.in.push_back(plan.tensors[static_cast<size_t>(v)]);
  for (const ValueId v : node.outputs) bound.out.push_back(plan.tensors[static_cast<size_t>(v)]);
  return bound;
}

int64_t planned_bytes(const ValueType& type) {
  int64_t total = 0;
  for (const PartLayout& part : part_layouts(type)) total += aligned(part.bytes);
  return total;
}

Tensor place_tensor(const ValueType& type, Buffer* buffer, int64_t offset) {
  Tensor tensor{type, {}};
  int index = 0;
  for (const PartLayout& part : part_layouts(type)) {
    tensor.parts[index++] = {buffer, offset, part.bytes};
    offset += aligned(part.bytes);
  }
  return tensor;
}

OwnedTensor allocate_tensor(Backend& backend, const ValueType& type) {
  OwnedTensor owned;
  owned.buffer = backend.allocate(planned_bytes(type));
  owned.tensor = place_tensor(type, owned.buffer.get(), 0);
  return owned;
}

}  // namespace fp4sim
