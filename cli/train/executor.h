// Executes a graph on a backend: persistent values by name in a ValueStore, temporaries in one planned arena.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/train/memory_plan.h"
#include "reference/contract/backend.h"

namespace fp4sim::train {

/// Parameters, optimizer states and constants that several executors share, by name, in backend memory.
class ValueStore {
 public:
  explicit ValueStore(Backend& backend) : backend_(backend) {}

  /// The tensor of a name, allocated with zeros at its first mention. Throws Error if it exists with another type.
  const Tensor& ensure(const std::string& name, const ValueType& type);
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// f32 contents; sizes must agree. Throws Error for an unknown name.
  void upload(const std::string& name, const std::vector<float>& values);
  std::vector<float> download(const std::string& name) const;
  int64_t bytes() const;

 private:
  const OwnedTensor& at(const std::string& name) const;
  Backend& backend_;
  std::map<std::string, OwnedTensor> tensors_;
};

/// Time spent by op, in order of op.def.
struct OpTimes {
  double seconds[kOpCount] = {};
  int64_t calls[kOpCount] = {};
};

class Executor {
 public:
  /// Plans memory, allocates, compiles. Backend and store must outlive the executor.
  Executor(Backend& backend, Graph graph, ValueStore& store);

  const Graph& graph() const { return graph_; }
  /// Uploads an input value; `bytes` must be its size.
  void set_input(ValueId v, const void* data, int64_t bytes);
  void run();
  /// The same bits node by node, adding each node's seconds to `seconds[op]` and 1 to `calls[op]`.
  void run_timed(OpTimes& times);
  /// Contents of a result or persistent f32 value.
  std::vector<float> read(ValueId v);
  /// Starts to read a scalar f32 behind the runs so far; it is in `to` after wait().
  std::unique_ptr<Download> start_read(ValueId v, float& to);
  int64_t arena_bytes() const { return plan_.bytes; }
  int64_t arena_bytes_without_reuse() const { return plan_.bytes_without_reuse; }

 private:
  Backend& backend_;
  Graph graph_;
  MemoryPlan plan_;
  std::unique_ptr<Buffer> arena_;
  std::vector<OwnedTensor> inputs_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<Program> program_;
};

}  // namespace fp4sim::train
