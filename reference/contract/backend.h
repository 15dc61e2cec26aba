// Backend: memory and execution of nodes. Everything above the backends is written once against this interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/contract/graph.h"
#include "reference/contract/step_info.h"

namespace fp4sim {

/// Memory owned by one backend; only that backend looks inside.
class Buffer {
 public:
  virtual ~Buffer() = default;
};

/// A component in memory: `offset` bytes into the buffer (a multiple of 64).
struct Part {
  Buffer* buffer = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// A value's type and where its components lie, in the order of part_layouts(type).
struct Tensor {
  ValueType type;
  Part parts[kMaxParts];
};

/// One node with its tensors. in.size() = node.inputs.size(), out.size() = node.outputs.size(). Outputs never
/// overlap inputs, except adamw's p, m, v, which are the same tensors.
struct NodeCall {
  const Node& node;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
};

/// A graph with memory for every value: tensors[v] belongs to graph.values[v].
struct Plan {
  const Graph& graph;
  const std::vector<Tensor>& tensors;
};

/// A compiled plan. run() executes the whole step; it may return before the work is done (synchronize waits).
class Program {
 public:
  virtual ~Program() = default;
  virtual void run() = 0;
};

/// A download that has been started. It must not outlive its backend.
class Download {
 public:
  virtual ~Download() = default;
  /// Returns once the bytes are where they were asked for.
  virtual void wait() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// "scalar", "simd-avx512", "lockstep:scalar,simd".
  virtual std::string name() const = 0;

  /// Zeroed memory, 64-byte aligned. Throws Error with the bytes needed when there is none.
  virtual std::unique_ptr<Buffer> allocate(int64_t bytes) = 0;
  virtual void upload(const Part& to, const void* from, int64_t bytes) = 0;
  virtual void download(const Part& from, void* to, int64_t bytes) = 0;

  /// True if programs return before their work is done: it pays to start the next before the results of one are read.
  virtual bool runs_ahead() const { return false; }
  /// Starts a download behind all work so far; `to` is filled by the end of wait(). Default: downloads at once.
  virtual std::unique_ptr<Download> start_download(const Part& from, void* to, int64_t bytes);

  /// 64-bit digest of the value: equal for equal bits with NaN canonical (numerics.md §1). A csr value counts its
  /// entries up to row_ptr's end only.
  virtual uint64_t digest(const Tensor& tensor) = 0;

  /// Throws Error where this backend cannot run the node, with the sizes or the spec.
  virtual void check(const Node& node, std::span<const ValueType> in, std::span<const ValueType> out) const = 0;

  /// Nodes between the last reader of a temporary and the next use of its memory in a plan for this backend: among so
  /// many neighbours it may choose what runs as one, and in what order.
  virtual size_t memory_rest() const { return 4; }

  /// Executes one node. Inputs are valid (validate was called on the graph).
  virtual void run(const NodeCall& call) = 0;

  /// Default: checks every node, then loops over run.
  virtual std::unique_ptr<Program> compile(const Plan& plan);

  virtual void synchronize() {}
};

/// Allocates every component of a value in one buffer of its own (tests, tools, parameters).
struct OwnedTensor {
  Tensor tensor;
  std::unique_ptr<Buffer> buffer;
};
OwnedTensor allocate_tensor(Backend& backend, const ValueType& type);

/// Bytes of a value with each component aligned to 64 bytes, and the tensor at `offset` of a buffer.
int64_t planned_bytes(const ValueType& type);
Tensor place_tensor(const ValueType& type, Buffer* buffer, int64_t offset);

/// The gathered tensors of one node of a plan.
struct BoundNode {
  const Node* node;
  std::vector<Tensor> in, out;
  NodeCall call() const { return {*node, in, out}; }
};
BoundNode bind(const Plan& plan, const Node& node);

}  // namespace fp4sim
