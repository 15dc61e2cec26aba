#include "fuzz/sabotaged_backend.h"

#include <algorithm>

#include "fuzz/forwarding_backend.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

const Mutant& find_mutant(const std::string& name) {
  std::string names;
  for (const Mutant& m : mutants()) {
    if (name == m.name) return m;
    names += (names.empty() ? "" : ", ") + std::string(m.name);
  }
  throw UsageError("unknown mutant `" + name + "`; known: " + names);
}

class SabotagedBackend final : public ForwardingBackend {
 public:
  SabotagedBackend(std::unique_ptr<Backend> inner, const Mutant& mutant)
      : ForwardingBackend(std::move(inner)), mutant_(mutant) {}

  std::string name() const override {
    return std::string("sabotaged:") + mutant_.name + "(" + ForwardingBackend::name() + ")";
  }

  void run(const NodeCall& call) override {
    if (call.node.op != mutant_.op) {
      inner().run(call);
      return;
    }
    mutant_.run({inner(), call, previous_outputs_});
    previous_outputs_.clear();
    for (const Tensor& out : call.out) previous_outputs_.push_back(download_value(inner(), out));
  }

 private:
  const Mutant& mutant_;
  std::vector<HostValue> previous_outputs_;
};

}  // namespace

void SabotagedCall::run_with(const Attrs& attrs) const {
  Node node = call.node;
  node.attrs = attrs;
  std::vector<Tensor> out(call.out.begin(), call.out.end());
  if (attrs.has("spec") && out[0].type.dtype == DType::packed) out[0].type.spec = parse_quant_spec(attrs.text("spec"));
  inner.run({node, call.in, out});
}

void SabotagedCall::run_as(const ValueType& out_type, std::span<const Tensor> in, const Attrs& attrs) const {
  const OwnedTensor other = allocate_tensor(inner, out_type);
  Node node = call.node;
  node.attrs = attrs;
  inner.run({node, in, std::span(&other.tensor, 1)});
  const HostValue wrong = download_value(inner, other.tensor);
  HostValue q = zero_value(call.out[0].type);
  for (size_t k = 0; k < q.parts.size(); ++k)
    std::copy_n(wrong.parts[k].begin(), std::min(wrong.parts[k].size(), q.parts[k].size()), q.parts[k].begin());
  set_output(q);
}

void SabotagedCall::run_with_input(size_t i, const HostValue& value) const {
  const OwnedTensor replaced = place_value(inner, value);
  std::vector<Tensor> in(call.in.begin(), call.in.end());
  in[i] = replaced.tensor;
  inner.run({call.node, in, call.out});
  inner.synchronize();
}

std::unique_ptr<Backend> make_sabotaged(std::unique_ptr<Backend> inner, const std::string& mutant) {
  return std::make_unique<SabotagedBackend>(std::move(inner), find_mutant(mutant));
}

}  // namespace fp4sim::fuzz
