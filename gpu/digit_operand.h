// Packed operands of wide integers as int8 digits: a product of integers of up to 21 bits becomes a few products of
// int8 numbers, the terms, whose weighted sum it is (numerics.md §7).
//
// A digit is 7 bits of the magnitude, with the element's sign. The significand of an element has at most 7 bits, so no
// two of its digits have a bit in common, and any sum of them is at most 127 too. So products of two and more digits
// need one term for each pair of digits instead of two (Karatsuba): with x = 128
// Σ_ij x^(i+j)·a_i·b_j = Σ_i (x^2i − Σ_(j≠i) x^(i+j))·a_i·b_i + Σ_(i<j) x^(i+j)·(a_i + a_j)·(b_i + b_j),
// six terms for e4m3·e4m3 and three for e4m3·e2m1.
#pragma once

#include "gpu/launch.h"
#include "gpu/wide_operand.h"
#include "reference/contract/element_format.h"

namespace fp4sim::gpu {

constexpr int kMostTerms = 6;

/// A product of two sums of digits; a mask has bit i for digit i.
struct DigitTerm {
  uint8_t mask_a, mask_b;
  int32_t weight;
};
struct DigitTerms {
  DigitTerm term[kMostTerms];
  int count;
};

/// True if products of these formats may be summed from terms: elements of at most 8 bits and three digits, a unit of
/// the dots with which binary32 holds them without underflow. The caller sees to the budget of exact dots.
bool digits_take(const ElementFormat& a, const ElementFormat& b);

/// Both operands in scratch, the slices of all terms after each other: slice t·k_slices + s has what term t needs of
/// slice s.
struct DigitPair {
  WidePair wide;
  DigitTerms terms;
  int64_t k_slices;  // of one term
};

/// Widens both operands. Rows with a NaN or Inf code get a NaN as their scale (block 0 of `scales`, in scratch), which
/// makes their outputs NaN.
DigitPair widen_digits(const NarrowOperand& a, const NarrowOperand& b, const OperandScales& scales_a,
                       const OperandScales& scales_b, Context& context);

}  // namespace fp4sim::gpu
