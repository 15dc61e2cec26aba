// The made-up language of the embedded corpus: its words and its rules.
#pragma once

#include "cli/train/grammar.h"

namespace fp4sim::train {

/// The grammar of one sentence with the separator behind it. Nouns fall in four classes; subject and verb agree in
/// number, across relative clauses of up to two levels, and a noun's class decides which verbs, and these which
/// objects, are likely; about a sixth of the sentences are sums and differences. Words are syllables drawn from a fixed
/// seed.
Grammar corpus_language();

}  // namespace fp4sim::train
