// The embedded corpus: text of a made-up language whose entropy is known, so that the loss floor stands beside the
// loss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fp4sim::train {

/// Whole sentences of the language, at least `bytes` bytes: the same text for the same seed on every machine. Sentence
/// choices are the words of Philox stream "corpus/text", step 0, in order.
std::string corpus_text(uint64_t seed, int64_t bytes);

/// Entropy of the source: nats a sentence, bytes a sentence and their quotient in nats per byte, the loss of a perfect
/// model with unlimited context. Exact, from the grammar's rules.
struct CorpusEntropy {
  double nats_per_sentence;
  double bytes_per_sentence;
  double nats_per_byte;
};
CorpusEntropy corpus_entropy();

/// −log of the exact probability of a text of whole sentences, in nats: what the true source would score. Throws Error
/// with the byte where the text is not in the language.
double corpus_nats(std::string_view text);

}  // namespace fp4sim::train
