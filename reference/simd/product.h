// A product over packed tiles (§7): which sums, over which matrices, with which engine; threads and cache blocking.
#pragma once

#include "reference/simd/kernels_product.h"
#include "reference/simd/product_operand.h"

namespace fp4sim::simd {

enum class SumRule : uint8_t {
  panels,  // the fp32 rule
  blocks,  // both block-quantized: acc = fma(dot, fl(sa·sb), acc)
  vectors  // one scale per vector: fl(dot·fl(sa·sb))
};

struct ProductSide {
  PlainMatrices values;
  bool k_inner;
  ScaleMatrices scales;  // not for `panels`
  const float* tensor_scale;
};

struct Product {
  SumRule rule;
  const Engine* engine;
  int64_t matrices, m, n, k;
  ProductSide a, b;
  int64_t block;   // k per block (`blocks`)
  float unit;      // `vectors` with int8: value of 1 in a dot (`blocks`: part of a.scales)
  int32_t offset;  // int8: what was added to the elements of A
  int64_t narrow;  // int8: units per int16 sum
  float rescale;   // sr34 (§6): fl(16/9), fl(4/3), or 1 without it
  float* y;        // (matrices, m, n)
};

/// Computes y. Bits do not depend on context.threads.
void run_product(const Product& product, const Context& context, Arena& arena);

}  // namespace fp4sim::simd
