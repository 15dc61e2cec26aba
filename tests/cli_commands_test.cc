// The program itself: formats, train → eval → generate, and exit codes.
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/run_program.h"

namespace fp4sim::cli {
namespace {

using fp4sim::testing::fp4sim;
using fp4sim::testing::get_file;
using fp4sim::testing::Outcome;
using fp4sim::testing::put_file;
using fp4sim::testing::TempFolder;

TEST(FormatsCommand, lists_every_table) {
  const Outcome all = fp4sim("formats");
  EXPECT_EQ(all.code, 0);
  for (const char* word : {"element formats", "e2m1", "int8", "bf16", "scale formats", "e8m0", "scale rules",
                           "4over6(mse)", "rounding", "sr32", "estimators", "dge", "spec aliases", "nvfp4", "57344"})
    EXPECT_NE(all.out.find(word), std::string::npos) << word;
  const auto json = nlohmann::json::parse(fp4sim("formats --json").out);
  EXPECT_EQ(json.at("element formats").size(), 12u);
  EXPECT_EQ(json.at("element formats")[0].at("max_normal"), 6.0);
}

TEST(FormatsCommand, prints_codes_bits_and_values) {
  EXPECT_EQ(
      fp4sim("formats e2m1 --csv").out,
      "code,bits,value\n0x0,0.00.0,0\n0x1,0.00.1,0.5\n0x2,0.01.0,1\n0x3,0.01.1,1.5\n0x4,0.10.0,2\n0x5,0.10.1,3\n"
      "0x6,0.11.0,4\n0x7,0.11.1,6\n0x8,1.00.0,-0\n0x9,1.00.1,-0.5\n0xA,1.01.0,-1\n0xB,1.01.1,-1.5\n0xC,1.10.0,-2\n"
      "0xD,1.10.1,-3\n0xE,1.11.0,-4\n0xF,1.11.1,-6\n");
  EXPECT_NE(fp4sim("formats e3m0 --csv").out.find("0x7,0.111,16\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats int4 --csv").out.find("0x8,1000,-2\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats e4m3 --csv").out.find("0x7E,0.1111.110,448\n0x7F,0.1111.111,NaN\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats e5m2 --csv").out.find("0x7C,0.11111.00,Inf\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats e3m3f --csv").out.find("0x7F,1.111.111"), std::string::npos) << "7 bits: the sign is bit 6";
  EXPECT_NE(fp4sim("formats e8m0 --csv").out.find("0x7F,01111111,1\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats e8m0 --csv").out.find("0xFF,11111111,NaN\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats bf16 --csv").out.find("0x3F80,0.01111111.0000000,1\n"), std::string::npos);
  EXPECT_NE(fp4sim("formats ue5m3 e2m1b-3f nvfp4").out.find("e2m1:b16:e4m3/te:rne"), std::string::npos);
}

TEST(FormatsCommand, unknown_names_are_usage_errors) {
  for (const char* name : {"e9m9f", "fp5", "''", "e2m1bautof", "e2m1 --csv --json", "--speling"}) {
    const Outcome outcome = fp4sim(std::string("formats ") + name);
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << name << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << name;
  }
}

/// A trained tiny checkpoint, made once.
class TrainedRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    const Outcome train = fp4sim(
        "train --recipe fp4-dge-occ --layers 1 --heads 2 --width 32 --context 32 --batch 3 --steps 4 "
        "--corpus-bytes 4000 --quiet --out " +
        folder_->path());
    ASSERT_EQ(train.code, 0) << train.err;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(train.out, match, std::regex("val_loss=([0-9.]+)")));
    val_loss_ = match[1];
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string checkpoint() { return " --checkpoint " + folder_->path() + "/checkpoint.safetensors "; }

  static TempFolder* folder_;
  static std::string val_loss_;
};
TempFolder* TrainedRun::folder_ = nullptr;
std::string TrainedRun::val_loss_;

TEST_F(TrainedRun, eval_repeats_the_validation_loss_on_every_backend_and_differs_under_another_recipe) {
  for (const char* backend : {"", "--backend scalar", "--backend lockstep:scalar,simd", "--threads 1"}) {
    const Outcome eval = fp4sim("eval" + checkpoint() + backend);
    EXPECT_EQ(eval.code, 0) << eval.err;
    EXPECT_EQ(eval.out.rfind("nll=" + val_loss_ + " ppl=", 0), 0u) << backend << ": " << eval.out;
  }
  EXPECT_EQ(fp4sim("eval --recipe fp32" + checkpoint()).out.find(val_loss_), std::string::npos);
}

TEST_F(TrainedRun, eval_scores_files_and_token_lists) {
  const TempFolder folder;
  put_file(folder / "text", std::string(200, 'a') + "12+7=19.");
  put_file(folder / "ids", "97 97 97");
  const auto nll = [&](const std::string& options) {
    const Outcome eval = fp4sim("eval --json" + checkpoint() + options);
    EXPECT_EQ(eval.code, 0) << options << eval.err;
    return eval.code == 0 ? nlohmann::json::parse(eval.out) : nlohmann::json();
  };
  EXPECT_EQ(nll("--data " + (folder / "text")).at("tokens"), 192);
  EXPECT_EQ(nll("--val-fraction 0.5 --data " + (folder / "text")).at("tokens"), 96);
  EXPECT_EQ(nll("--context 10 --batch 2 --data " + (folder / "text")).at("tokens"), 200);
  EXPECT_EQ(nll("--tokens " + (folder / "ids")).at("tokens"), 2);
  put_file(folder / "short", "abc");
  put_file(folder / "foreign", "97 256");
  const std::pair<std::string, int> bad[] = {{"--data " + (folder / "short"), 1},
                                             {"--data " + (folder / "none"), 1},
                                             {"--tokens " + (folder / "foreign"), 1},
                                             {"--context 33 --data " + (folder / "text"), 1},
                                             {"--data x --tokens y", 2},
                                             {"--val-fraction 0 --data " + (folder / "text"), 2},
                                             {"--recipe nope", 2},
                                             {"--backend nope", 2},
                                             {"--batch -1", 2}};
  for (const auto& [options, code] : bad) {
    const Outcome outcome = fp4sim("eval" + checkpoint() + options);
    EXPECT_EQ(outcome.code, code) << options << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << options << ": " << outcome.err;
  }
}

TEST_F(TrainedRun, generate_prints_the_prompt_and_its_continuation_as_text_or_ids) {
  const Outcome text = fp4sim("generate --prompt 'lo ' --tokens 12 --temperature 1 --seed 3" + checkpoint());
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.rfind("lo ", 0), 0u);
  EXPECT_EQ(text.out.size(), 3u + 12 + 1);
  const Outcome ids = fp4sim("generate --prompt 'lo ' --tokens 12 --temperature 1 --seed 3 --ids" + checkpoint());
  std::string spelled;
  for (const char c : text.out.substr(0, text.out.size() - 1))
    spelled += (spelled.empty() ? "" : " ") + std::to_string(static_cast<uint8_t>(c));
  EXPECT_EQ(ids.out, spelled + "\n");
  EXPECT_NE(fp4sim("generate --prompt 'lo ' --tokens 12 --temperature 1 --seed 4" + checkpoint()).out, text.out);
  EXPECT_EQ(fp4sim("generate --tokens 40" + checkpoint()).out.size(), 41u) << "longer than the context";
  EXPECT_EQ(fp4sim("generate --tokens 0 --prompt x" + checkpoint()).out, "x\n");
  for (const char* options : {"--temperature -1", "--temperature nan", "--tokens -1", "--vocab", "--seed x"})
    EXPECT_EQ(fp4sim(std::string("generate ") + options + checkpoint()).code, 2) << options;
}

TEST(GenerateCommand, an_imported_model_without_its_vocabulary_speaks_in_ids) {
  const std::string stories = std::string(FP4SIM_GOLDEN_DIR) + "/spec/stories260K/stories260K";
  const std::string checkpoint = " --checkpoint " + stories + ".legacy.bin ";
  EXPECT_EQ(fp4sim("generate --tokens 3 --ids" + checkpoint).out, "1 403 407 261\n");
  EXPECT_EQ(fp4sim("generate --tokens 3" + checkpoint).code, 2);
  EXPECT_EQ(fp4sim("generate --tokens 3 --vocab " + stories + "_vocab.txt" + checkpoint).out, "Once upon a\n");
  EXPECT_EQ(fp4sim("generate --tokens 2 --prompt 'Once upon' --vocab " + stories + "_vocab.txt" + checkpoint).out,
            "Once upon a time\n");
  EXPECT_EQ(fp4sim("eval --tokens " + stories + "_greedy256_tokens.txt" + checkpoint).out.substr(0, 8), "nll=0.45");
  EXPECT_EQ(fp4sim("eval" + checkpoint).code, 2);
}

TEST(GenerateCommand, a_nan_weight_is_one_clear_line) {
  const TempFolder folder;
  const std::string stories = std::string(FP4SIM_GOLDEN_DIR) + "/spec/stories260K/stories260K";
  std::string file = get_file(stories + ".legacy.bin");
  file.replace(7 * 4, 4, std::string("\x00\x00\xC0\x7F", 4));  // the first value of the embedding
  put_file(folder / "nan.bin", file);
  const std::string checkpoint = " --checkpoint " + (folder / "nan.bin");
  const Outcome eval = fp4sim("eval --tokens " + stories + "_greedy256_tokens.txt" + checkpoint);
  EXPECT_EQ(eval.code, 1);
  EXPECT_NE(eval.err.find("embedding.weight holds a value that is not finite"), std::string::npos) << eval.err;
  EXPECT_EQ(fp4sim("generate --tokens 3 --ids" + checkpoint).code, 1);
}

}  // namespace
}  // namespace fp4sim::cli
