// Generators: one row per op of op.def. `draw` chooses the parameters of a case (sizes, specs, attributes,
// distribution, seed), `build` makes the case from them; both are pure functions. The parameters have a text form, so
// that a case is one line: `matmul a=nvfp4 a_axis=last b=bf16 b_axis=first batch=0 dist=bell k=70 m=3 n=5 seed=7`.
#pragma once

#include <string>
#include <vector>

#include "fuzz/case_file.h"
#include "fuzz/dice.h"

namespace fp4sim::fuzz {

struct CaseParameters {
  Op op{};
  std::string distribution = "bell";
  uint64_t seed = 0;
  Attrs args;  // what the op's row takes: sizes as integers, specs, axes and estimators as texts

  friend bool operator==(const CaseParameters&, const CaseParameters&) = default;
};

/// The one-line text form; parse_parameters(to_string(p)) == p.
std::string to_string(const CaseParameters& parameters);

/// Throws UsageError naming the word that is wrong.
CaseParameters parse_parameters(const std::string& text);

/// Random parameters for the op, a pure function of the seed.
CaseParameters draw_case(Op op, uint64_t seed);

/// The case of the parameters, without expected outputs. `maker` quantizes operands where a case needs consistent codes
/// and scales. Throws Error for arguments that no case has.
Case build_case(const CaseParameters& parameters, Backend& maker);

/// Parameters one step simpler: a smaller size, a plainer spec or distribution. Same op and seed.
std::vector<CaseParameters> simpler_cases(const CaseParameters& parameters);

class CaseBuilder;

/// The row of an op.
struct OpGenerator {
  Op op;
  void (*draw)(Dice& dice, Attrs& args);
  void (*build)(const Attrs& args, CaseBuilder& builder);
};

/// The rows of three files, by kind of op (generators_*.cc); together one for every op.
std::vector<OpGenerator> product_generators();
std::vector<OpGenerator> quantization_generators();
std::vector<OpGenerator> tensor_generators();
std::vector<OpGenerator> row_generators();

}  // namespace fp4sim::fuzz
