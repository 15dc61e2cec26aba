// The committed corpus of the parser targets (golden/corpus/TARGET): every file is parsed or refused with an Error.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/parsers/targets.h"
#include "tests/pch.h"

namespace fp4sim::fuzz {
namespace {

struct TargetRow {
  const char* name;
  void (*run)(std::string_view);
};
#define FP4SIM_TARGET_ROW(name) {#name, target_##name},
const TargetRow kTargets[] = {FP4SIM_PARSER_TARGETS(FP4SIM_TARGET_ROW)};
#undef FP4SIM_TARGET_ROW

class Parsers : public testing::TestWithParam<TargetRow> {};
INSTANTIATE_TEST_SUITE_P(Corpus, Parsers, testing::ValuesIn(kTargets),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(Parsers, parse_or_refuse_every_file_of_the_corpus) {
  int files = 0;
  const auto folder = std::filesystem::path(FP4SIM_GOLDEN_DIR) / "corpus" / GetParam().name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_NO_THROW(GetParam().run(bytes)) << entry.path();
    // Damage that every file format meets: an end too early, and a changed byte.
    for (const size_t part : {size_t{1}, size_t{2}, size_t{3}}) {
      EXPECT_NO_THROW(GetParam().run(std::string_view(bytes).substr(0, bytes.size() * part / 4))) << entry.path();
      std::string changed = bytes;
      if (!changed.empty()) changed[bytes.size() * part / 4] ^= static_cast<char>(0x80 >> part);
      EXPECT_NO_THROW(GetParam().run(changed)) << entry.path();
    }
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace fp4sim::fuzz
