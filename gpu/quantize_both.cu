#include "gpu/quantize_both.h"

#include "gpu/quantize_fast.h"

namespace fp4sim::gpu {
namespace {

bool same_bytes(const ValueType& t) { return fused_tensor_takes(t) || fused_wide_take(t); }

}  // namespace

bool quantize_both_takes(const NodeCall& a, const NodeCall& b) {
  if (a.node.op != Op::quantize || b.node.op != Op::quantize || a.in.size() != 1 || b.in.size() != 1) return false;
  const Part &x = a.in[0].parts[0], &y = b.in[0].parts[0];
  const ValueType &p = a.out[0].type, &q = b.out[0].type;
  if (x.buffer != y.buffer || x.offset != y.offset || p.shape != q.shape || !(p.spec == q.spec)) return false;
  if (element_count(p.shape) == 0) return false;
  return same_bytes(p);
}

void quantize_both(const NodeCall& a, const NodeCall& b, Context& context) {
  const PackedView q = view_of(a.out[0]), twin = view_of(b.out[0]);
  const QuantizeCall call{in_data<float>(a, 0), q, {}, {}, nullptr};
  const auto scale = [](const PackedView& p) { return static_cast<float*>(const_cast<void*>(p.scales)); };
  const PackedCopies copies{{const_cast<uint8_t*>(q.codes), const_cast<uint8_t*>(twin.codes)}, {scale(q), scale(twin)}};
  if (fused_tensor_takes(a.out[0].type)) return fused_tensor(call, copies, context);
  fused_wide(call, copies, context);
}

}  // namespace fp4sim::gpu
