// A vocabulary; then every piece is decoded and a text encoded with it.
#include "cli/io/vocab.h"

#include "fuzz/parsers/target.h"

FP4SIM_PARSER_TARGET(vocab) {
  const MemoryFile file(input);
  const io::Vocab vocab = io::read_vocab(file.path());
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocab.size(); ++id) ids.push_back(id);
  vocab.decode(ids);
  vocab.encode("Once upon a time");
}
