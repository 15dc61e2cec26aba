// The faults of SabotagedBackend come from two files; mutants() is all of them.
#pragma once

#include <vector>

#include "fuzz/sabotaged_backend.h"

namespace fp4sim::fuzz {

/// Faults of element formats, scale rules, granularities, roundings and estimators (mutants_formats.cc).
std::vector<Mutant> format_mutants();

}  // namespace fp4sim::fuzz
