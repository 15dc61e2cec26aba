// Graph passes (architecture.md). Rewrites give the recipe its meaning; neutral passes never change a bit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/train/recipe.h"
#include "reference/contract/graph.h"

namespace fp4sim::train {

/// One quantizer that insert_qdq made for an operand of a forward product: what override_gradient needs.
struct QuantizerUse {
  std::string layer;     // "layers.0.attn.q"
  PlaceId place;         // kFpropX or kFpropW
  int64_t micro_batch;   // the products of one micro-batch belong together (attr micro_batch, 0 if absent)
  ValueId original;      // the value before any transform
  ValueId quantized_in;  // the tensor that was quantized (after hadamard and occ)
  ValueId packed;
  ValueId decoded;  // the dequantized or soft value, before a residual is added
  Node hadamard;    // the rotation's node if the spec has one (inputs empty otherwise)
};

struct QdqResult {
  std::vector<QuantizerUse> uses;
};

/// Puts quantize → dequantize on the operands of every product (and on the embedding's table) as the recipe says,
/// soft_forward in place of dequantize where the estimator has forward=soft; the products' interface is unchanged.
/// Products are recognised by name "<layer>/<fprop|dgrad|wgrad>" and by their roles. Stochastic rounding counts rows
/// globally: a product's attr micro_batch gives the rows before it.
QdqResult insert_qdq(Graph& graph, const Recipe& recipe, ValueId step);

/// Puts the estimators of fprop places between the backward product of the operand and its uses.
void override_gradient(Graph& graph, const Recipe& recipe, const QdqResult& qdq);

/// Rewrites products of two dequantized operands whose scales allow a packed product (numerics.md §7) into products on
/// the codes, and OCC operands into a packed plus a sparse product; operands with a soft forward value stay as they
/// are. product = "fake" leaves all of them. A product that reads decoded +sr34 values is multiplied by fl(4/3) or
/// fl(16/9) behind it (§6); the packed product does that itself.
void lower_to_packed(Graph& graph, const Recipe& recipe);

/// Rounds every value that the nodes of the forward ranges [begin, end) write to bf16 and back (activations = "bf16"),
/// for all readers, forward and backward; losses stay binary32. Ranges ascend, one a micro-batch.
void store_activations(Graph& graph, const std::vector<std::pair<size_t, size_t>>& forward_ranges);

/// Neutral: identical deterministic quantize, dequantize, soft_forward, occ_split, hadamard, cast and add_residual
/// nodes become one.
void merge_quantizers(Graph& graph);

/// Neutral: a quantizer comes forward to the one before it that reads the same value (along the other axis, say): one
/// kernel may make both, and the value need not be kept for the backward pass.
void gather_quantizers(Graph& graph);

/// Neutral: a bf16 quantizer on a value that was loaded from bf16 storage is dropped.
void redundant_casts(Graph& graph);

/// Neutral: drops nodes whose outputs nobody reads, then unused temporaries' ids stay but cost no memory.
void dead_code(Graph& graph);

/// Replaces every read of `from` by `to` in nodes [begin, end) and in the results.
void replace_uses(Graph& graph, ValueId from, ValueId to, size_t begin, size_t end);

}  // namespace fp4sim::train
