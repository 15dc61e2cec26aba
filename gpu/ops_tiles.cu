// The readers of one matrix that quantize it or sum its columns, with the element-wise ops that make it.
#include "gpu/element_chains.h"
#include "gpu/fusions.h"
#include "gpu/tiles.h"

namespace fp4sim::gpu {
namespace {

bool sums(const NodeCall& call) {
  return call.node.op == Op::column_sum &&
         call.node.attrs.integer("columns") == matrix_view(call.in[0].type.shape).cols;
}
bool quantizes(const NodeCall& call) { return call.node.op == Op::quantize && tiles_quantize(call); }
bool uses_tiles(const NodeCall& call) { return sums(call) || quantizes(call); }

/// The instructions' nodes; those that follow use the tiles of what they give.
size_t instructions(const Chain& chain) {
  size_t count = 0;
  while (count < chain.nodes.size() && !uses_tiles(chain.nodes[count].call())) ++count;
  return count;
}

bool is_f32(const Tensor& tensor) { return tensor.type.dtype == DType::f32; }

/// The matrix, as type: what the instructions give, or what the first node reads.
const ValueType& matrix_of(const Chain& chain) {
  const size_t count = instructions(chain);
  return count > 0 ? chain.nodes[count - 1].out[0].type : chain.nodes[0].in[0].type;
}

bool starts_tiles(const NodeCall& first) {
  return count_in(first, 0) > 0 && (uses_tiles(first) || runs_as_element(first));
}

bool reads_matrix(const Chain& chain, const Node& next) {
  const size_t count = instructions(chain);
  const ValueId matrix = count > 0 ? chain.nodes[count - 1].node->outputs[0] : chain.nodes[0].node->inputs[0];
  if (next.inputs[0] != matrix) return false;
  for (const BoundNode& node : chain.nodes)
    for (const ValueId v : node.node->outputs)
      if (std::ranges::count(next.inputs, v) != (v == matrix ? 1 : 0)) return false;
  return true;
}

/// True if the kernel runs the chain's instructions on this matrix: binary32 throughout, but what nobody sees.
bool takes_instructions(const Chain& chain, size_t count, const MatrixView& m) {
  const int64_t elements = m.matrices * m.rows * m.cols;
  if (!is_f32(chain.nodes[0].in[0]) || count_in(chain.nodes[0].call(), 0) != elements) return false;
  for (size_t k = 0; k < count; ++k) {
    const NodeCall call = chain.nodes[k].call();
    if ((chain.stored[k] || k + 1 == count) && !is_f32(call.out[0])) return false;
    for (size_t i = 0; i < call.in.size(); ++i)
      if (!tiles_take_operand(count_in(call, i), elements, m.cols)) return false;
  }
  return true;
}

bool extends_tiles(const Chain& chain, const NodeCall& next) {
  if (!uses_tiles(next)) return false;
  const size_t count = instructions(chain);
  const MatrixView m = matrix_view(matrix_of(chain).shape);
  if (!tiles_walk(m.matrices, m.rows, m.cols)) return false;
  if (count > 0 &&
      (!takes_instructions(chain, count, m) || (quantizes(next) && !tiles_run_programs(next.out[0].type.spec))))
    return false;
  bool with_sums = sums(next);
  for (size_t k = count; k < chain.nodes.size(); ++k) {
    const NodeCall other = chain.nodes[k].call();
    if (other.node.op == Op::column_sum) {
      if (sums(next)) return false;
      with_sums = true;
    } else if (!sums(next)) {
      const ValueType &a = other.out[0].type, &b = next.out[0].type;
      if (a.axis == b.axis || !(a.spec == b.spec) || a.shape != b.shape) return false;
    }
  }
  return !with_sums || tiles_sum(m.matrices, m.rows, m.cols);
}

bool complete_tiles(const Chain& chain) { return chain.nodes.size() > 1 && uses_tiles(chain.nodes.back().call()); }

/// What quantizes in the chain; nullptr: nothing.
const BoundNode* quantizer_in(const Chain& chain) {
  for (const BoundNode& node : chain.nodes)
    if (node.node->op == Op::quantize) return &node;
  return nullptr;
}

bool has_sums(const Chain& chain) {
  return std::ranges::any_of(chain.nodes, [](const BoundNode& node) { return node.node->op == Op::column_sum; });
}

bool joins_tiles(const Chain& a, const Chain& b) {
  const BoundNode *p = quantizer_in(a), *q = quantizer_in(b);
  if (instructions(a) + instructions(b) > 0 || p == nullptr || q == nullptr) return false;
  const QuantSpec& spec = p->out[0].type.spec;
  if (!(spec == q->out[0].type.spec) || is_stochastic(spec.rounding) || has_sums(a) != has_sums(b)) return false;
  return !has_sums(a) || matrix_of(a).shape == matrix_of(b).shape;
}

TileWork work_of(const Chain& chain) {
  const size_t count = instructions(chain);
  const MatrixView m = matrix_view(matrix_of(chain).shape);
  TileWork work{m.matrices, m.rows, m.cols, program_of(chain, count), {}, {}};
  for (size_t k = count; k < chain.nodes.size(); ++k) {
    const NodeCall call = chain.nodes[k].call();
    if (call.node.op == Op::column_sum) {
      work.sums = out_data<float>(call);
      continue;
    }
    (call.out[0].type.axis == Axis::last ? work.last : work.first) =
        QuantizeCall{nullptr, view_of(call.out[0]), random_source_of(call), {}, nullptr};
  }
  return work;
}

void launch_tiles(std::span<const Chain> chains, Context& context) {
  std::vector<TileWork> works;
  for (const Chain& chain : chains) works.push_back(work_of(chain));
  run_tiles(works, context);
}

}  // namespace

const Fusion kTiles{.name = "tiles",
                    .from = &kElements,
                    .in_place = false,
                    .starts = starts_tiles,
                    .reads = reads_matrix,
                    .extends = extends_tiles,
                    .complete = complete_tiles,
                    .together = kMostTileWorks,
                    .joins = joins_tiles,
                    .launch = launch_tiles};

}  // namespace fp4sim::gpu
