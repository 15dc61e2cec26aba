// Tokens for training and evaluation: where they come from, how they are split, which ones a step sees.
// A batch depends on (seed, step, row) only, so a resumed run, more micro-batches or more ranks see the same data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fp4sim::train {

/// Tokens [0, train_size) are for training, the rest for validation.
struct TokenData {
  std::string name;  // the file, or what the caller calls it
  std::vector<int32_t> tokens;
  int64_t train_size = 0;

  int64_t validation_size() const { return static_cast<int64_t>(tokens.size()) - train_size; }
};

/// The bytes of a text as tokens 0 … 255; the last floor(val_fraction · bytes) of them are for validation. Throws
/// UsageError for a fraction outside [0, 1), Error with both numbers where a part is shorter than context + 1
/// (no validation part at all is asked for by the fraction 0).
TokenData split_tokens(std::string_view text, double val_fraction, int64_t context, const std::string& name);

/// split_tokens of a file's bytes. Throws Error naming the file where it is missing or empty.
TokenData load_tokens(const std::string& path, double val_fraction, int64_t context);

/// Whitespace-separated token ids of a text file, all for validation. Throws Error naming the file and the word that is
/// not an id in [0, vocab), or where there is no pair of neighbours.
TokenData load_token_ids(const std::string& path, int64_t vocab);

/// Throws Error naming the data where a token is not in [0, vocab).
void require_vocabulary(const TokenData& data, int64_t vocab);

/// rows × context inputs and, one token later, targets, row-major.
struct Batch {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
};

/// A training micro-batch. Row r of micro-batch m is row g = m·rows + r of the step; it begins at floor(u·n / 2^64), n
/// = train_size − context, u = word 1 · 2^32 + word 0 of Philox counter g, stream "data/batch", of the step.
Batch sample_batch(const TokenData& data, uint64_t seed, int64_t step, int64_t micro_batch, int64_t rows,
                   int64_t context);

/// The number of validation windows: neighbours of `context` tokens without overlap; a remainder shorter than context +
/// 1 is not used.
int64_t validation_windows(const TokenData& data, int64_t context);

/// Validation windows first, first + 1, …; rows behind the last window repeat window `first`.
Batch validation_batch(const TokenData& data, int64_t first, int64_t rows, int64_t context);

}  // namespace fp4sim::train
