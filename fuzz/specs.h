// Random QuantSpecs for the generators: every combination of the tables that require_computable allows.
#pragma once

#include <string>
#include <vector>

#include "fuzz/dice.h"
#include "reference/contract/estimator.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::fuzz {

/// True if this version computes the spec (parse_quant_spec and require_computable accept it).
bool is_computable(const std::string& spec);

/// The text of a computable spec that quantizes (not the identity): half of the draws are the specs of published
/// recipes, half any combination of element × granularity × scale rule × rounding × options.
std::string draw_spec(Dice& dice);

/// A spec with the granularity of `spec` and another element or scale: pairs that share their partition of k.
std::string draw_partner(Dice& dice, const std::string& spec);

/// A spec with +occ: alpha and residual drawn; element and scale do not matter to occ_split. `none` (clamp only) has no
/// entries to read, so ops that take the csr value do not meet it.
std::string draw_occ_spec(Dice& dice, bool with_none);

/// The text of an estimator that this version computes.
std::string draw_estimator(Dice& dice);

/// Specs simpler than `spec` in one part, for shrinking; all computable.
std::vector<std::string> simpler_specs(const std::string& spec);

}  // namespace fp4sim::fuzz
