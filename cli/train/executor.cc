#include "cli/train/executor.h"

#include <fmt/format.h>

#include <chrono>

#include "reference/contract/error.h"

namespace fp4sim::train {

const Tensor& ValueStore::ensure(const std::string& name, const ValueType& type) {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return tensors_.emplace(name, allocate_tensor(backend_, type)).first->second.tensor;
  if (!(it->second.tensor.type == type))
    throw Error(fmt::format("{} is {}, expected {}", name, to_string(it->second.tensor.type), to_string(type)));
  return it->second.tensor;
}

const OwnedTensor& ValueStore::at(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw Error("no value named " + name);
  return it->second;
}

void ValueStore::upload(const std::string& name, const std::vector<float>& values) {
  const Part& part = at(name).tensor.parts[0];
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  if (bytes != part.bytes) throw Error(fmt::format("{}: {} bytes given, {} expected", name, bytes, part.bytes));
  backend_.upload(part, values.data(), bytes);
}

std::vector<float> ValueStore::download(const std::string& name) const {
  const Part& part = at(name).tensor.parts[0];
  std::vector<float> values(static_cast<size_t>(part.bytes) / sizeof(float));
  backend_.synchronize();
  backend_.download(part, values.data(), part.bytes);
  return values;
}

int64_t ValueStore::bytes() const {
  int64_t total = 0;
  for (const auto& [name, owned] : tensors_) total += planned_bytes(owned.tensor.type);
  return total;
}

Executor::Executor(Backend& backend, Graph graph, ValueStore& store)
    : backend_(backend), graph_(std::move(graph)), plan_(plan_memory(graph_, backend.memory_rest())) {
  validate(graph_);
  arena_ = backend_.allocate(plan_.bytes);
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const Value& value = graph_.values[v];
    switch (value.kind) {
      case ValueKind::temporary:
        tensors_.push_back(place_tensor(value.type, arena_.get(), std::max<int64_t>(plan_.offsets[v], 0)));
        break;
      case ValueKind::input:
        inputs_.push_back(allocate_tensor(backend_, value.type));
        tensors_.push_back(inputs_.back().tensor);
        break;
      case ValueKind::constant:
      case ValueKind::parameter:
      case ValueKind::state: tensors_.push_back(store.ensure(value.name, value.type)); break;
    }
  }
  program_ = backend_.compile({graph_, tensors_});
}

void Executor::set_input(ValueId v, const void* data, int64_t bytes) {
  const Tensor& tensor = tensors_[static_cast<size_t>(v)];
  if (bytes != tensor.parts[0].bytes)
    throw Error(fmt::format("input {}: {} bytes given, {} expected", graph_.values[static_cast<size_t>(v)].name, bytes,
                            tensor.parts[0].bytes));
  backend_.upload(tensor.parts[0], data, bytes);
}

void Executor::run() { program_->run(); }

void Executor::run_timed(OpTimes& times) {
  const Plan plan{graph_, tensors_};
  for (const Node& node : graph_.nodes) {
    const BoundNode bound = bind(plan, node);
    const auto begin = std::chrono::steady_clock::now();
    backend_.run(bound.call());
    backend_.synchronize();
    const auto op = static_cast<size_t>(node.op);
    times.seconds[op] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++times.calls[op];
  }
}

std::vector<float> Executor::read(ValueId v) {
  const Tensor& tensor = tensors_[static_cast<size_t>(v)];
  if (tensor.type.dtype != DType::f32) throw Error("only f32 values can be read");
  std::vector<float> values(static_cast<size_t>(tensor.parts[0].bytes) / sizeof(float));
  backend_.synchronize();
  backend_.download(tensor.parts[0], values.data(), tensor.parts[0].bytes);
  return values;
}

std::unique_ptr<Download> Executor::start_read(ValueId v, float& to) {
  const Tensor& tensor = tensors_[static_cast<size_t>(v)];
  if (tensor.type.dtype != DType::f32 || tensor.parts[0].bytes != sizeof(float))
    throw Error("only scalar f32 values can be read later");
  return backend_.start_download(tensor.parts[0], &to, sizeof(float));
}

}  // namespace fp4sim::train
