#include "cli/train/corpus.h"

#include <fmt/format.h>

#include "cli/train/language.h"
#include "reference/contract/error.h"
#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"

namespace fp4sim::train {
namespace {

constexpr int64_t kMaxCorpusBytes = int64_t{1} << 32;

const Grammar& language() {
  static const Grammar grammar = corpus_language();
  return grammar;
}

}  // namespace

std::string corpus_text(uint64_t seed, int64_t bytes) {
  if (bytes < 1 || bytes > kMaxCorpusBytes)
    throw UsageError(fmt::format("corpus: {} bytes asked for, 1 … {} possible", bytes, kMaxCorpusBytes));
  uint64_t drawn = 0;
  host_math::Words words{};
  const auto word = [&]() -> uint32_t {
    if (drawn % 4 == 0) words = host_math::philox(seed, drawn / 4, stream_of("corpus/text"), 0);
    return words.w[drawn++ % 4];
  };
  std::string text;
  while (static_cast<int64_t>(text.size()) < bytes) language().generate(word, text);
  return text;
}

CorpusEntropy corpus_entropy() {
  const GrammarExpectation sentence = language().expectation();
  return {sentence.nats, sentence.bytes, sentence.nats_per_byte()};
}

double corpus_nats(std::string_view text) { return language().nats_of(text); }

}  // namespace fp4sim::train
