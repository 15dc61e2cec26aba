#include "gpu/accesses.h"

#include <algorithm>
#include <iterator>

namespace fp4sim::gpu {
namespace {

void add_accesses(const Tensor& tensor, bool write, std::vector<Access>& list) {
  for (const Part& part : tensor.parts)
    if (part.buffer != nullptr && part.bytes > 0)
      list.push_back({part.buffer, part.offset, part.offset + part.bytes, write});
}

}  // namespace

std::vector<Access> accesses(const Chain& chain) {
  std::vector<Access> list;
  for (size_t k = 0; k < chain.nodes.size(); ++k) {
    const BoundNode& node = chain.nodes[k];
    for (size_t i = 0; i < node.in.size(); ++i) {
      const auto gives = [&](const BoundNode& n) { return n.node->outputs[0] == node.node->inputs[i]; };
      const auto end = chain.nodes.begin() + static_cast<std::ptrdiff_t>(k);
      if (std::none_of(chain.nodes.begin(), end, gives)) add_accesses(node.in[i], false, list);
    }
    for (size_t o = 0; o < node.out.size(); ++o)
      if (o > 0 || chain.stored[k]) add_accesses(node.out[o], true, list);
  }
  return list;
}

std::vector<Access> accesses(const Step& step) {
  std::vector<Access> list;
  for (const Chain& chain : step.chains) {
    const std::vector<Access> more = accesses(chain);
    list.insert(list.end(), more.begin(), more.end());
  }
  return list;
}

bool conflict(const std::vector<Access>& a, const std::vector<Access>& b) {
  for (const Access& x : a)
    for (const Access& y : b)
      if ((x.write || y.write) && overlap(x, y)) return true;
  return false;
}

}  // namespace fp4sim::gpu
