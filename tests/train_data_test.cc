// Tokens: splits, the batch sampler as a pure function, evaluation windows, errors.
#include "cli/train/data.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::train {
namespace {

using fp4sim::testing::error_of;
using fp4sim::testing::put_file;
using fp4sim::testing::TempFolder;

std::string counting_text(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  return text;
}

TEST(Data, the_last_part_is_for_validation) {
  const TokenData data = split_tokens(counting_text(1000), 0.1, 16, "text");
  EXPECT_EQ(data.train_size, 900);
  EXPECT_EQ(data.validation_size(), 100);
  EXPECT_EQ(data.tokens[999], static_cast<uint8_t>(999 * 7 + 3));
  EXPECT_EQ(split_tokens(counting_text(1115394), 0.1, 64, "text").train_size, 1115394 - 111539);
}

RC_GTEST_PROP(Data, targets_are_the_inputs_one_token_later_and_inside_the_training_part, ()) {
  const auto context = *rc::gen::inRange<int64_t>(1, 40);
  const auto size = *rc::gen::inRange<size_t>(100, 400);
  const TokenData data = split_tokens(counting_text(size), 0.5, context, "text");
  const auto rows = *rc::gen::inRange<int64_t>(1, 5);
  const Batch batch =
      sample_batch(data, *rc::gen::arbitrary<uint64_t>(), *rc::gen::inRange<int64_t>(0, 1000), 0, rows, context);
  RC_ASSERT(batch.inputs.size() == static_cast<size_t>(rows * context));
  RC_ASSERT(batch.targets.size() == batch.inputs.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = batch.inputs.begin() + row * context;
    std::vector<int32_t> window(begin, begin + context);
    window.push_back(batch.targets[static_cast<size_t>((row + 1) * context - 1)]);
    const auto train_end = data.tokens.begin() + data.train_size;
    RC_ASSERT(std::search(data.tokens.begin(), train_end, window.begin(), window.end()) != train_end);
    for (int64_t i = 0; i + 1 < context; ++i)
      RC_ASSERT(batch.targets[static_cast<size_t>(row * context + i)] ==
                batch.inputs[static_cast<size_t>(row * context + i + 1)]);
  }
}

TEST(Data, rows_do_not_depend_on_how_a_step_is_cut_into_micro_batches) {
  const TokenData data = split_tokens(counting_text(5000), 0.1, 8, "text");
  const Batch whole = sample_batch(data, 7, 3, 0, 12, 8);
  std::vector<int32_t> pieces;
  for (int64_t m = 0; m < 4; ++m) {
    const Batch piece = sample_batch(data, 7, 3, m, 3, 8);
    pieces.insert(pieces.end(), piece.inputs.begin(), piece.inputs.end());
  }
  EXPECT_EQ(whole.inputs, pieces);
  EXPECT_NE(whole.inputs, sample_batch(data, 7, 4, 0, 12, 8).inputs);
  EXPECT_NE(whole.inputs, sample_batch(data, 8, 3, 0, 12, 8).inputs);
  EXPECT_NE(whole.inputs, sample_batch(data, 7 + (uint64_t{1} << 32), 3, 0, 12, 8).inputs);
}

TEST(Data, every_start_of_the_training_part_is_drawn) {
  const TokenData data = split_tokens(counting_text(60), 0.5, 10, "text");  // 30 − 10 = 20 starts
  std::set<int32_t> first;
  for (int64_t step = 0; step < 40; ++step)
    for (const int32_t token : sample_batch(data, 1, step, 0, 10, 1).inputs) first.insert(token);
  EXPECT_EQ(first.size(), 29u);
  std::set<int32_t> starts;
  for (int64_t step = 0; step < 40; ++step) {
    const Batch batch = sample_batch(data, 1, step, 0, 10, 10);
    for (size_t row = 0; row < 10; ++row) starts.insert(batch.inputs[row * 10]);
  }
  EXPECT_EQ(starts.size(), 20u);
}

TEST(Data, validation_windows_tile_the_validation_part) {
  const TokenData data = split_tokens(counting_text(200), 0.25, 8, "text");  // 50 validation tokens
  ASSERT_EQ(validation_windows(data, 8), 6);
  const Batch batch = validation_batch(data, 0, 6, 8);
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_EQ(batch.inputs[i], data.tokens[150 + i]);
    EXPECT_EQ(batch.targets[i], data.tokens[151 + i]);
  }
  const Batch filled = validation_batch(data, 5, 2, 8);
  EXPECT_TRUE(std::equal(filled.inputs.begin(), filled.inputs.begin() + 8, filled.inputs.begin() + 8));
  EXPECT_NE(error_of<Error>([&] { validation_batch(data, 6, 1, 8); }), "");
  EXPECT_EQ(validation_windows(data, 49), 1);
  EXPECT_EQ(validation_windows(data, 50), 0);
}

TEST(Data, errors_say_both_numbers) {
  const TempFolder folder;
  EXPECT_NE(error_of<Error>([&] { load_tokens(folder / "none", 0.1, 4); }).find("No such file"), std::string::npos);
  put_file(folder / "empty", "");
  EXPECT_EQ(error_of<Error>([&] { load_tokens(folder / "empty", 0.1, 4); }),
            (folder / "empty") + ": the data file is empty");
  put_file(folder / "short", std::string(100, 'x'));
  EXPECT_EQ(error_of<Error>([&] { load_tokens(folder / "short", 0.1, 64); }),
            (folder / "short") + ": the validation part has 10 tokens, context 64 needs at least 65");
  EXPECT_EQ(error_of<Error>([&] { load_tokens(folder / "short", 0.5, 64); }),
            (folder / "short") + ": the training part has 50 tokens, context 64 needs at least 65");
  for (const double fraction : {-0.1, 1.0, 1e300, std::nan("")})
    EXPECT_NE(error_of<UsageError>([&] { load_tokens(folder / "short", fraction, 4); }), "") << fraction;
  EXPECT_EQ(load_tokens(folder / "short", 0, 64).validation_size(), 0);
  const TokenData data = load_tokens(folder / "short", 0.5, 4);
  EXPECT_NE(error_of<Error>([&] { require_vocabulary(data, 64); }).find("token 120 at position 0"), std::string::npos);
  require_vocabulary(data, 121);
}

TEST(Data, token_files_hold_ids_inside_the_vocabulary) {
  const TempFolder folder;
  put_file(folder / "ids", " 1 403\n407\t261 ");
  const TokenData data = load_token_ids(folder / "ids", 512);
  EXPECT_EQ(data.tokens, (std::vector<int32_t>{1, 403, 407, 261}));
  EXPECT_EQ(data.train_size, 0);
  for (const char* text : {"1 512", "1 -1", "1 2x", "1 x", "1 99999999999", "1 2,3"}) {
    put_file(folder / "ids", text);
    EXPECT_NE(error_of<Error>([&] { load_token_ids(folder / "ids", 512); }).find("word 2 at byte 2"), std::string::npos)
        << text;
  }
  for (const char* text : {"", "  \n", "7"}) {
    put_file(folder / "ids", text);
    EXPECT_NE(error_of<Error>([&] { load_token_ids(folder / "ids", 512); }), "") << text;
  }
}

}  // namespace
}  // namespace fp4sim::train
