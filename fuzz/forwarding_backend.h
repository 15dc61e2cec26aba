// A backend that does what another one does: decorators override what they change.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "reference/contract/backend.h"

namespace fp4sim::fuzz {

/// Nodes run one by one, downloads are not started ahead and memory rests as Backend says, whatever the other one can.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  std::unique_ptr<Buffer> allocate(int64_t bytes) override { return inner_->allocate(bytes); }
  void upload(const Part& to, const void* from, int64_t bytes) override { inner_->upload(to, from, bytes); }
  void download(const Part& from, void* to, int64_t bytes) override { inner_->download(from, to, bytes); }
  uint64_t digest(const Tensor& tensor) override { return inner_->digest(tensor); }
  void check(const Node& node, std::span<const ValueType> in, std::span<const ValueType> out) const override {
    inner_->check(node, in, out);
  }
  void run(const NodeCall& call) override { inner_->run(call); }
  void synchronize() override { inner_->synchronize(); }

 protected:
  Backend& inner() { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace fp4sim::fuzz
