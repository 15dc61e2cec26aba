#include "cli/train/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/io/files.h"
#include "reference/contract/error.h"
#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"

namespace fp4sim::train {
namespace {

__extension__ using WideInteger = unsigned __int128;

void append_row(const TokenData& data, int64_t start, int64_t context, Batch& batch) {
  const auto first = data.tokens.begin() + start;
  batch.inputs.insert(batch.inputs.end(), first, first + context);
  batch.targets.insert(batch.targets.end(), first + 1, first + context + 1);
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void require_length(const TokenData& data, const char* part, int64_t size, int64_t context) {
  if (size < context + 1)
    throw Error(fmt::format("{}: the {} part has {} tokens, context {} needs at least {}", data.name, part, size,
                            context, context + 1));
}

}  // namespace

TokenData split_tokens(std::string_view text, double val_fraction, int64_t context, const std::string& name) {
  if (!(val_fraction >= 0 && val_fraction < 1))
    throw UsageError(fmt::format("val-fraction must be in [0, 1), got {}", val_fraction));
  TokenData data;
  data.name = name;
  data.tokens.reserve(text.size());
  for (const char c : text) data.tokens.push_back(static_cast<uint8_t>(c));
  const auto size = static_cast<int64_t>(text.size());
  data.train_size = size - static_cast<int64_t>(val_fraction * static_cast<double>(size));
  require_length(data, "training", data.train_size, context);
  if (val_fraction > 0) require_length(data, "validation", data.validation_size(), context);
  return data;
}

TokenData load_tokens(const std::string& path, double val_fraction, int64_t context) {
  const std::string text = io::read_text_file(path);
  if (text.empty()) throw Error(fmt::format("{}: the data file is empty", path));
  return split_tokens(text, val_fraction, context, path);
}

TokenData load_token_ids(const std::string& path, int64_t vocab) {
  const std::string text = io::read_text_file(path);
  TokenData data;
  data.name = path;
  for (size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), id);
    const bool ends = end == text.data() + text.size() || is_space(*end);
    if (error != std::errc{} || !ends || id < 0 || id >= vocab)
      throw Error(fmt::format("{}: word {} at byte {} is not a token id in 0 … {}", path, data.tokens.size() + 1, at,
                              vocab - 1));
    data.tokens.push_back(id);
    at = static_cast<size_t>(end - text.data());
  }
  require_length(data, "validation", data.validation_size(), 1);
  return data;
}

void require_vocabulary(const TokenData& data, int64_t vocab) {
  const auto foreign =
      std::find_if(data.tokens.begin(), data.tokens.end(), [&](int32_t t) { return t < 0 || t >= vocab; });
  if (foreign != data.tokens.end())
    throw Error(fmt::format("{}: token {} at position {} is outside the model's vocabulary of {}", data.name, *foreign,
                            foreign - data.tokens.begin(), vocab));
}

Batch sample_batch(const TokenData& data, uint64_t seed, int64_t step, int64_t micro_batch, int64_t rows,
                   int64_t context) {
  require_length(data, "training", data.train_size, context);
  const auto choices = static_cast<uint64_t>(data.train_size - context);
  Batch batch;
  for (int64_t row = micro_batch * rows; row < (micro_batch + 1) * rows; ++row) {
    const auto words =
        host_math::philox(seed, static_cast<uint64_t>(row), stream_of("data/batch"), static_cast<uint32_t>(step));
    const uint64_t u = static_cast<uint64_t>(words.w[1]) << 32 | words.w[0];
    const auto start = static_cast<uint64_t>(static_cast<WideInteger>(choices) * u >> 64);
    append_row(data, static_cast<int64_t>(start), context, batch);
  }
  return batch;
}

int64_t validation_windows(const TokenData& data, int64_t context) {
  return std::max<int64_t>(0, (data.validation_size() - 1) / context);
}

Batch validation_batch(const TokenData& data, int64_t first, int64_t rows, int64_t context) {
  const int64_t windows = validation_windows(data, context);
  if (first < 0 || first >= windows)
    throw Error(fmt::format("{}: validation window {} of {} does not exist", data.name, first, windows));
  Batch batch;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t window = first + row < windows ? first + row : first;
    append_row(data, data.train_size + window * context, context, batch);
  }
  return batch;
}

}  // namespace fp4sim::train
