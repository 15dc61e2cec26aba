// Byte files, SHA-256, vocabularies and llama2.c checkpoints.
#include "cli/io/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <numeric>

#include "cli/io/llama2c.h"
#include "cli/io/sha256.h"
#include "cli/io/vocab.h"
#include "reference/contract/error.h"
#include "tests/temp_folder.h"

namespace fp4sim::io {
namespace {

using testing::error_of;
using testing::get_file;
using testing::put_file;
using testing::TempFolder;

TEST(Files, a_written_file_reads_back_and_leaves_no_temporary_name) {
  const TempFolder folder;
  const std::string text("line\n\0\xFF", 7);
  write_file_atomic(folder / "a.txt", text);
  write_file_atomic(folder / "a.txt", text + "!");
  EXPECT_EQ(read_text_file(folder / "a.txt"), text + "!");
  EXPECT_EQ(read_file(folder / "a.txt").size(), 8u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Files, errors_name_the_file_and_the_reason) {
  const TempFolder folder;
  EXPECT_EQ(error_of<Error>([&] { read_file(folder / "none"); }),
            "cannot open " + (folder / "none") + ": No such file or directory");
  EXPECT_EQ(error_of<Error>([&] { MappedFile{folder.path()}; }),
            "cannot read " + folder.path() + ": not a regular file");
  EXPECT_NE(error_of<Error>([&] { write_file_atomic(folder / "no/file", "x"); }), "");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of<Error>([&] { read_file(folder / "pipe"); }), "") << "a pipe must not block the program";
}

TEST(Files, a_failed_replace_keeps_the_old_target_and_removes_the_temporary_name) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "target");
  EXPECT_NE(error_of<Error>([&] { write_file_atomic(folder / "target", "x"); }), "");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "target"));
  EXPECT_FALSE(std::filesystem::exists(folder / "target.tmp"));
}

TEST(Files, a_stale_temporary_file_is_overwritten_and_a_locked_one_is_an_error) {
  const TempFolder folder;
  put_file(folder / "a.tmp", std::string(1000, 's'));
  write_file_atomic(folder / "a", "new");
  EXPECT_EQ(get_file(folder / "a"), "new");
  const int other = ::open((folder / "a.tmp").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_NE(error_of<Error>([&] { write_file_atomic(folder / "a", "newer"); }).find("another process"),
            std::string::npos);
  ::close(other);
  EXPECT_EQ(get_file(folder / "a"), "new");
}

TEST(Files, an_empty_file_maps_to_no_bytes) {
  const TempFolder folder;
  put_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
  EXPECT_TRUE(read_file(folder / "empty").empty());
}

TEST(Sha256, gives_the_published_hashes) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  const std::string thousand(1000, 'a');
  for (int i = 0; i < 1000; ++i) hash.update(bytes_of(thousand));
  EXPECT_EQ(hash.finish(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Vocab, decodes_pieces_bytes_and_silent_tokens) {
  const Vocab vocab({"<unk>", "<s>", "</s>", "<0x0A>", "\xE2\x96\x81the", "\xE2\x96\x81", "t", "he"});
  EXPECT_EQ(vocab.begin_id(), 1);
  EXPECT_EQ(vocab.decode(std::vector<int32_t>{1, 4, 5, 6, 7, 3, 2}), "the the\n");
  EXPECT_EQ(vocab.encode("the the\n"), (std::vector<int32_t>{1, 4, 4, 3}));
  EXPECT_EQ(vocab.encode(""), (std::vector<int32_t>{1}));
  EXPECT_NE(error_of<Error>([&] { vocab.encode("x"); }).find("0x78"), std::string::npos);
  EXPECT_NE(error_of<Error>([&] { vocab.decode(std::vector<int32_t>{8}); }), "");
  EXPECT_NE(error_of<Error>([&] { vocab.decode(std::vector<int32_t>{-1}); }), "");
}

TEST(Vocab, files_with_a_wrong_line_name_it) {
  const TempFolder folder;
  put_file(folder / "good", "0\ta\n1\tb b\n2\t \n");
  EXPECT_EQ(read_vocab(folder / "good").size(), 3);
  for (const char* text :
       {"0\ta\n2\tb\n", "0\ta\n1 b\n", "0\ta\nx\tb\n", "0\ta\n\n", "0\ta\n1", "0\ta\n99999999999999999999\tb\n"}) {
    put_file(folder / "bad", text);
    EXPECT_NE(error_of<Error>([&] { read_vocab(folder / "bad"); }).find("line 2"), std::string::npos) << text;
  }
  put_file(folder / "bad", "");
  EXPECT_NE(error_of<Error>([&] { read_vocab(folder / "bad"); }).find("empty"), std::string::npos);
}

struct Llama2cWords {
  int32_t field[7] = {8, 12, 2, 2, 1, 5, 6};
};

std::string llama2c_bytes(const Llama2cWords& words, int64_t floats) {
  std::string file(reinterpret_cast<const char*>(words.field), sizeof words.field);
  std::vector<float> values(static_cast<size_t>(floats));
  std::iota(values.begin(), values.end(), 0.0f);
  return file + std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

// dim 8, hidden 12, 2 layers, 2 heads, 1 kv head (width 4), vocab 5, context 6
constexpr int64_t kTiedFloats =
    5 * 8 + 2 * 8 + 2 * 64 + 2 * 32 + 2 * 32 + 2 * 64 + 2 * 8 + 3 * (2 * 12 * 8) + 8 + 6 * 4;

TEST(Llama2c, tensors_are_found_in_file_order) {
  const TempFolder folder;
  put_file(folder / "tied.bin", llama2c_bytes({}, kTiedFloats));
  const Llama2cFile tied = read_llama2c(folder / "tied.bin");
  EXPECT_TRUE(tied.header.tied_head);
  EXPECT_EQ(tied.tensors.size(), 11u);
  EXPECT_EQ(tied.tensors.at("tok_emb").as<float>()[0], 0.0f);
  EXPECT_EQ(tied.tensors.at("rms_att").as<float>()[0], 40.0f);
  EXPECT_EQ(tied.tensors.at("wk").shape, (Shape{2, 4, 8}));
  EXPECT_EQ(tied.tensors.at("w2").shape, (Shape{2, 8, 12}));
  EXPECT_EQ(tied.tensors.at("rms_final").as<float>()[7], static_cast<float>(kTiedFloats - 25));
  Llama2cWords words;
  words.field[5] = -5;
  put_file(folder / "untied.bin", llama2c_bytes(words, kTiedFloats + 40));
  const Llama2cFile untied = read_llama2c(folder / "untied.bin");
  EXPECT_FALSE(untied.header.tied_head);
  EXPECT_EQ(untied.header.vocab, 5);
  EXPECT_EQ(untied.tensors.at("wcls").as<float>()[0], static_cast<float>(kTiedFloats));
}

TEST(Llama2c, a_file_of_any_other_size_is_rejected) {
  const TempFolder folder;
  const std::string whole = llama2c_bytes({}, kTiedFloats);
  for (size_t length = 0; length < whole.size(); length += length < 64 ? 1 : 129) {
    put_file(folder / "cut.bin", whole.substr(0, length));
    EXPECT_NE(error_of<Error>([&] { read_llama2c(folder / "cut.bin"); }).find("cut.bin"), std::string::npos) << length;
  }
  put_file(folder / "cut.bin", whole + "x");
  EXPECT_NE(error_of<Error>([&] { read_llama2c(folder / "cut.bin"); }), "");
}

TEST(Llama2c, impossible_header_numbers_are_rejected) {
  const TempFolder folder;
  for (int i = 0; i < 7; ++i) {
    for (const int32_t value : {0, -1, INT32_MIN, INT32_MAX, 1 << 24, 7}) {
      if (i == 5 && value == -1) continue;  // an untied head, a wrong size only
      Llama2cWords words;
      words.field[i] = value;
      put_file(folder / "bad.bin", llama2c_bytes(words, kTiedFloats));
      EXPECT_NE(error_of<Error>([&] { read_llama2c(folder / "bad.bin"); }), "") << i << " " << value;
    }
  }
}

}  // namespace
}  // namespace fp4sim::io
