// Random QuantSpecs and estimators for the generators: every combination of the tables that require_computable allows.
#pragma once

#include <string>
#include <vector>

#include "fuzz/dice.h"
#include "reference/contract/estimator.h"
#include "reference/contract/quant_spec.h"

namespace fp4sim::fuzz {

/// True if the backends compute the spec (parse_quant_spec and require_computable accept it).
bool is_computable(const std::string& spec);

/// The text of a computable spec that quantizes (not the identity): half of the draws are the specs of published
/// recipes, half any combination of element × granularity × scale rule × rounding × options.
std::string draw_spec(Dice& dice);

/// Another spec with `spec`'s partition of k (numerics.md §7): blocks and tiles of one size; row and tensor scales; or
/// all that products decode.
std::string draw_partner(Dice& dice, const std::string& spec);

/// A spec with +occ: alpha and residual drawn; element and scale do not matter to occ_split. `none` (clamp only) has no
/// entries to read, so ops that take the csr value do not meet it.
std::string draw_occ_spec(Dice& dice, bool with_none);

/// The text of an estimator: every kind, some with a soft forward value.
std::string draw_estimator(Dice& dice);

/// The text of an estimator with a soft forward value.
std::string draw_soft_forward(Dice& dice);

/// Specs simpler than `spec` in one part, for shrinking; all computable.
std::vector<std::string> simpler_specs(const std::string& spec);

}  // namespace fp4sim::fuzz
