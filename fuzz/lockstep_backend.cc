#include "fuzz/lockstep_backend.h"

#include <vector>

#include "fuzz/mismatch.h"

namespace fp4sim::fuzz {
namespace {

struct PairBuffer final : Buffer {
  std::unique_ptr<Buffer> a, b;
};

enum class Side { a, b };

Part part_of(Part part, Side side) {
  if (part.buffer == nullptr) return part;
  auto* pair = static_cast<PairBuffer*>(part.buffer);
  part.buffer = side == Side::a ? pair->a.get() : pair->b.get();
  return part;
}

Tensor tensor_of(Tensor tensor, Side side) {
  for (Part& part : tensor.parts) part = part_of(part, side);
  return tensor;
}

std::vector<Tensor> tensors_of(std::span<const Tensor> tensors, Side side) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor_of(tensor, side));
  return result;
}

/// True if the node writes over one of its inputs (adamw): its inputs are gone after the run.
bool in_place(const NodeCall& call) {
  for (const Tensor& in : call.in)
    for (const Tensor& out : call.out)
      if (in.parts[0].buffer == out.parts[0].buffer && in.parts[0].offset == out.parts[0].offset) return true;
  return false;
}

class LockstepBackend final : public Backend {
 public:
  LockstepBackend(std::unique_ptr<Backend> a, std::unique_ptr<Backend> b, LockstepOptions options)
      : a_(std::move(a)), b_(std::move(b)), options_(std::move(options)) {}

  std::string name() const override { return "lockstep:" + a_->name() + "," + b_->name(); }

  std::unique_ptr<Buffer> allocate(int64_t bytes) override {
    auto pair = std::make_unique<PairBuffer>();
    pair->a = a_->allocate(bytes);
    pair->b = b_->allocate(bytes);
    return pair;
  }
  void upload(const Part& to, const void* from, int64_t bytes) override {
    a_->upload(part_of(to, Side::a), from, bytes);
    b_->upload(part_of(to, Side::b), from, bytes);
  }
  void download(const Part& from, void* to, int64_t bytes) override { a_->download(part_of(from, Side::a), to, bytes); }
  uint64_t digest(const Tensor& tensor) override { return a_->digest(tensor_of(tensor, Side::a)); }
  void check(const Node& node, std::span<const ValueType> in, std::span<const ValueType> out) const override {
    a_->check(node, in, out);
    b_->check(node, in, out);
  }
  void synchronize() override {
    a_->synchronize();
    b_->synchronize();
  }

  void run(const NodeCall& call) override {
    const std::vector<Tensor> in_a = tensors_of(call.in, Side::a), in_b = tensors_of(call.in, Side::b);
    const std::vector<Tensor> out_a = tensors_of(call.out, Side::a), out_b = tensors_of(call.out, Side::b);
    std::vector<HostValue> saved;
    if (in_place(call)) saved = download_all(*a_, in_a);
    a_->run({call.node, in_a, out_a});
    b_->run({call.node, in_b, out_b});
    for (size_t i = 0; i < out_a.size(); ++i)
      if (a_->digest(out_a[i]) != b_->digest(out_b[i]))
        report(call.node, saved.empty() ? download_all(*a_, in_a) : std::move(saved), out_a, out_b);
    if (options_.mode == LockstepMode::isolate)
      for (size_t i = 0; i < out_a.size(); ++i) upload_value(*b_, out_b[i], download_value(*a_, out_a[i]));
  }

 private:
  static std::vector<HostValue> download_all(Backend& backend, const std::vector<Tensor>& tensors) {
    std::vector<HostValue> values;
    for (const Tensor& tensor : tensors) values.push_back(download_value(backend, tensor));
    return values;
  }

  [[noreturn]] void report(const Node& node, std::vector<HostValue> inputs, const std::vector<Tensor>& out_a,
                           const std::vector<Tensor>& out_b) {
    const Case c{node.op, node.name, node.attrs, std::move(inputs), download_all(*a_, out_a), "found by " + name()};
    std::optional<Mismatch> mismatch = compare_outputs(c, c.outputs, download_all(*b_, out_b));
    if (!mismatch)
      throw Error(name() + ": the digests of " + describe(c) + " differ but the tensors are equal: a digest is wrong");
    mismatch->expected_by = a_->name();
    mismatch->computed_by = b_->name();
    if (!options_.case_path.empty()) save_case(options_.case_path, c);
    throw MismatchError(std::move(*mismatch), options_.case_path);
  }

  std::unique_ptr<Backend> a_, b_;
  LockstepOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_lockstep(std::unique_ptr<Backend> a, std::unique_ptr<Backend> b,
                                       LockstepOptions options) {
  return std::make_unique<LockstepBackend>(std::move(a), std::move(b), std::move(options));
}

}  // namespace fp4sim::fuzz
