// CaseBuilder: what the generator rows are written with. It adds inputs one after the other; the elements of each come
// from the case's distribution and seed and the input's number.
#pragma once

#include <string>

#include "fuzz/generators.h"

namespace fp4sim::fuzz {

/// Where a packed input's codes and scales come from.
enum class Codes {
  quantized,  // the maker quantizes f32 elements
  legal,      // drawn: any code and scale that quantize can give, in any combination
  any,        // drawn: any bit pattern, the most negative integer and NaN codes included
};

class CaseBuilder {
 public:
  CaseBuilder(const CaseParameters& parameters, Backend& maker);

  /// An f32 input from the case's distribution, or from another one (by name).
  void f32(const Shape& shape, const char* distribution = nullptr);
  /// An f32 input of non-negative numbers.
  void non_negative(const Shape& shape);
  /// Any bit pattern of bf16.
  void bf16(const Shape& shape);
  /// n indices in [0, below).
  void indices(int64_t n, int64_t below);
  /// A step tensor with random seed, step, skip, learning rate, moments' powers, loss scale and clip norm.
  void step();
  /// An f32 scalar: a tensor amax for the f32 input number `source`, mostly at least its own.
  void tensor_amax(size_t source);
  void packed(const Shape& shape, const std::string& spec, Axis axis, Codes codes);
  /// The packed value of f32 input number `source`.
  void packed_of(size_t source, const std::string& spec, Axis axis);
  /// A csr input with random entries within the capacity of the spec's occ option.
  void csr(const Shape& shape, const std::string& occ_spec, Axis axis);
  /// A product's operand by format: "f32", "bf16", or a spec.
  void operand(const Shape& shape, const std::string& format, Axis axis, Codes codes);

  void attr(const std::string& name, Attr value) { case_.attrs.set(name, std::move(value)); }
  Dice& dice() { return dice_; }
  Case finish() { return std::move(case_); }

 private:
  std::string stream() const;
  HostValue quantized(const HostValue& x, const std::string& spec, Axis axis);

  const CaseParameters& parameters_;
  Backend& maker_;
  Dice dice_;
  Case case_;
};

/// A random size: mostly small, sometimes around a power of two.
int64_t draw_size(Dice& dice);
/// A random size for the long axis of a reduction: small, or around 1024, 2048, 3072 or 4096.
int64_t draw_long_size(Dice& dice);
const char* draw_axis(Dice& dice);

/// True for arguments that are sizes (shrinking makes them smaller), and for those that are specs.
bool is_size(const std::string& argument);
bool is_spec(const std::string& argument);

}  // namespace fp4sim::fuzz
