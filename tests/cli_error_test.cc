// fp4sim error: the three experiments as the program prints them, and its bad input.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/io/npy.h"
#include "cli/io/safetensors.h"
#include "tests/run_program.h"

namespace fp4sim::cli {
namespace {

using fp4sim::testing::fp4sim;
using fp4sim::testing::Outcome;
using fp4sim::testing::put_file;
using fp4sim::testing::TempFolder;
using Json = nlohmann::json;

class ErrorCommand : public ::testing::Test {
 protected:
  std::string npy(const std::vector<float>& values, const Shape& shape) const {
    const std::string path = folder_ / "x.npy";
    io::write_npy(path, io::make_f32(shape, values));
    return path;
  }
  static Json json(const std::string& arguments) {
    const Outcome outcome = fp4sim("error " + arguments + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  TempFolder folder_;
};

TEST_F(ErrorCommand, blocks_by_hand) {
  // amax 6 = 1.5·2^2: scale 2^0; codes 4 (a tie, to the even code), 0 (a tie), 6, 1.5.
  const std::string x = npy({5, 0.25, 6, 1.5}, {1, 4});
  const Json all = json("blocks --methods hard --blocks 16 --scales e8m0 --magnitudes 0,3 --tensor " + x);
  EXPECT_EQ(all.at("data")[0].at("elements"), 4);
  for (const Json& row : all.at("relative error")) {
    EXPECT_EQ(row.at("rel_error"), std::sqrt(1.0625 / 63.3125));
    EXPECT_EQ(row.at("rel_l1"), 1.25 / 12.75);
    EXPECT_EQ(row.at("rel_mean"), (0.2 + 1.0) / 4);
    EXPECT_EQ(row.at("flushed"), 0.25);
    EXPECT_EQ(row.at("from_hard"), 0.0);
  }
  EXPECT_EQ(all.at("relative error").size(), 2u);
}

TEST_F(ErrorCommand, occ_by_hand) {
  // 20 values, α = 0.9: the quantiles are the values number 1 and 18 of 0 … 19; without the outliers all are codes.
  std::vector<float> values = {100, -100};
  for (const float v :
       {6.f, -6.f, 4.f, 3.f, 2.f, 1.5f, 1.f, 0.5f, 0.f, -0.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, 1.f, 2.f, 3.f})
    values.push_back(v);
  const std::string x = npy(values, {1, 20});
  const Json rows =
      json("occ --alphas 0.9 --residuals fp32,bf16 --tensor " + x).at("outlier clamping and compensation");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].at("method"), "no clamp");
  EXPECT_EQ(rows[0].at("sparsity"), 0.0);
  EXPECT_EQ(rows[1].at("method"), "clamp");
  EXPECT_EQ(rows[1].at("sparsity"), 0.1);
  EXPECT_EQ(rows[1].at("mse"), 2 * 94.0 * 94.0 / 20);
  for (const int compensated : {2, 3}) {
    EXPECT_EQ(rows[compensated].at("method"), "clamp+compensation");
    EXPECT_EQ(rows[compensated].at("mse"), 0.0);
    EXPECT_EQ(rows[compensated].at("snr_db"), "Inf");
    EXPECT_NEAR(rows[compensated].at("cosine").get<double>(), 1, 1e-15);
  }
}

TEST_F(ErrorCommand, estimators_by_hand) {
  const std::string grid = "estimators --from 1 --to 3 --points 3 --estimators ";
  const auto column = [&](const std::string& arguments, const char* name) {
    std::vector<float> values;
    const Json all = json(arguments);
    for (const Json& row : all.at("estimators")) values.push_back(row.at(name).get<float>());
    return values;
  };
  EXPECT_EQ(column(grid + "dge", "y"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(column(grid + "dge", "forward"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(column(grid + "dge", "derivative"), (std::vector<float>{0.2f, 0.2f, 0.2f})) << "1/k at a code's value";
  EXPECT_EQ(column(grid + "ste --gradient 7", "derivative"), (std::vector<float>{7, 7, 7}));
  const std::string values = npy({7, -8, 6, 2.5}, {4});
  EXPECT_EQ(column("estimators --estimators ste_clip --tensor " + values, "y"), (std::vector<float>{-8, 2.5, 6, 7}));
  EXPECT_EQ(column("estimators --estimators ste_clip --tensor " + values, "derivative"),
            (std::vector<float>{0, 1, 1, 0}));
  EXPECT_EQ(column("estimators --estimators ste_clip --tensor " + values, "forward"),
            (std::vector<float>{-6, 2, 6, 6}));
  const Json summary = json("estimators --summary --estimators ste_clip --tensor " + values).at("estimators")[0];
  EXPECT_EQ(summary.at("points"), 4);
  EXPECT_EQ(summary.at("mean"), 0.5);
  EXPECT_EQ(summary.at("zeros"), 0.5);
  EXPECT_EQ(summary.at("rms_error"), std::sqrt((4 + 0.25 + 1) / 4));
  // numerics.md §5: the mean of m over one interval is 0.593494.
  const Json mean = json("estimators --summary --estimators 'dge(5,3)' --from 0 --to 0.5 --points 100001");
  EXPECT_NEAR(mean.at("estimators")[0].at("mean").get<double>(), 0.593494, 2e-5);
}

TEST_F(ErrorCommand, reads_safetensors_by_name) {
  const std::string path = folder_ / "x.safetensors";
  const float one[] = {1, 2, 3, 4}, two[] = {5, 0.25};
  io::write_safetensors(path, {{"one", io::make_f32({2, 2}, one)}, {"two", io::make_f32({2}, two)}});
  const std::string few = "blocks --methods hard --blocks 16 --scales e8m0 --magnitudes 0 --tensor ";
  EXPECT_EQ(json(few + path + " --name two").at("data")[0].at("shape"), "(2)");
  EXPECT_EQ(json(few + path + " --name one").at("data")[0].at("shape"), "(2, 2)");
  const Outcome unnamed = fp4sim("error " + few + path);
  EXPECT_EQ(unnamed.code, 1);
  EXPECT_NE(unnamed.err.find("2 tensors, choose one with --name: one, two"), std::string::npos) << unnamed.err;
}

const std::string kBlocks = "blocks --rows 2 --cols 96 --methods hard,40 --blocks 16,32 --magnitudes=-4,4 ";
const std::string kOcc = "occ --rows 2 --cols 300 --alphas 0.99,0.9 --residuals fp32,e4m3 ";
const std::string kEstimators = "estimators --points 65 ";

TEST_F(ErrorCommand, output_does_not_depend_on_backend_or_threads) {
  for (const std::string& experiment : {kBlocks, kOcc, kEstimators, kEstimators + "--summary "}) {
    const Outcome scalar = fp4sim("error " + experiment + "--backend scalar");
    EXPECT_EQ(scalar.code, 0) << scalar.err;
    EXPECT_FALSE(scalar.out.empty());
    EXPECT_EQ(fp4sim("error " + experiment + "--threads 1").out, scalar.out);
    EXPECT_EQ(fp4sim("error " + experiment + "--threads 2").out, scalar.out);
  }
}

TEST_F(ErrorCommand, every_option_changes_the_output) {
  struct Option {
    std::string name, value, other;  // no value: the option is absent until it changes
  };
  struct Experiment {
    std::string name;
    std::vector<Option> options;
  };
  const Option dist{"--dist", "normal", "laplace"}, rows{"--rows", "2", "3"}, columns{"--cols", "300", "301"},
      seed{"--seed", "0", "1"}, csv{"--csv", "", ""}, json_style{"--json", "", ""};
  const std::string x = npy({5, 0.25, 6, 1.5}, {2, 2});
  const std::string y = folder_ / "y.safetensors";
  const float one[] = {1, 2, 5, 4};
  io::write_safetensors(y, {{"a", io::make_f32({2, 2}, one)}, {"b", io::make_f32({4}, one)}});
  const Option magnitudes{"--magnitudes", "0", "1"}, scales{"--scales", "e8m0", "e4m3"};
  const Experiment experiments[] = {
      {"blocks",
       {dist,
        rows,
        columns,
        seed,
        csv,
        json_style,
        {"--methods", "hard,40", "3"},
        {"--blocks", "16,32", "row"},
        {"--scales", "e8m0", "e4m3/te"},
        {"--magnitudes", "4", "5"},
        {"--element", "e2m1", "e2m3"},
        {"--rounding", "rne", "rtz"}}},
      {"blocks", {magnitudes, scales, {"--tensor", x, y + " --name a"}}},
      {"blocks", {magnitudes, scales, {"--tensor", y + " --name a", y + " --name b"}}},
      {"occ",
       {dist,
        rows,
        columns,
        seed,
        csv,
        json_style,
        {"--spec", "e2m1:row:fp32", "mxfp4"},
        {"--alphas", "0.99", "0.9"},
        {"--residuals", "fp32", "e4m3"},
        {"--quantiles", "row", "tensor"}}},
      {"estimators",
       {csv,
        json_style,
        {"--estimators", "ste,quest", "'soft(20)'"},
        {"--element", "e2m1", "e2m3"},
        {"--from", "1", "0"},
        {"--to", "8", "9"},
        {"--points", "9", "10"},
        {"--gradient", "1", "2"},
        {"--summary", "", ""}}},
      {"estimators", {dist, rows, columns, seed}},
  };
  for (const Experiment& experiment : experiments) {
    // The output with option number `changed` at its other value.
    const auto output = [&](size_t changed) {
      std::string arguments = "error " + experiment.name;
      for (size_t i = 0; i < experiment.options.size(); ++i) {
        const Option& option = experiment.options[i];
        const std::string& value = i == changed ? option.other : option.value;
        if (!value.empty() || (option.value.empty() && i == changed)) arguments += " " + option.name + " " + value;
      }
      const Outcome outcome = fp4sim(arguments);
      EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
      return outcome.out;
    };
    const std::string base = output(experiment.options.size());
    for (size_t i = 0; i < experiment.options.size(); ++i)
      EXPECT_NE(output(i), base) << experiment.name << " " << experiment.options[i].name;
  }
}

TEST_F(ErrorCommand, blocks_is_the_default_experiment) {
  const std::string options = "--rows 2 --cols 32 --methods hard";
  const Outcome outcome = fp4sim("error " + options);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, fp4sim("error blocks " + options).out);
  const Outcome csv = fp4sim("error --csv " + options + " --scales e8m0 --magnitudes 0 --blocks 32");
  EXPECT_EQ(csv.out.substr(0, csv.out.find('\n')),
            "scale,method,magnitude,block,rel_error,rel_l1,rel_mean,flushed,from_hard");
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
}

TEST_F(ErrorCommand, help_explains_every_column) {
  const std::pair<const char*, std::vector<const char*>> helps[] = {
      {"blocks",
       {"scale", "method", "magnitude", "block", "rel_error    sqrt(sum (Y-X)^2) / sqrt(sum X^2)", "rel_l1", "rel_mean",
        "flushed", "from_hard", "outlier-channels(share=0.01,factor=20)"}},
      {"occ", {"method", "alpha", "residual", "sparsity", "cosine", "mse", "snr_db       10 log10"}},
      {"estimators",
       {"estimator", "y ", "forward", "derivative", "points", "mean", "min", "max", "zeros", "rms_error"}}};
  for (const auto& [experiment, words] : helps) {
    const Outcome help = fp4sim(std::string("error ") + experiment + " --help");
    EXPECT_EQ(help.code, 0);
    for (const char* word : words) EXPECT_NE(help.out.find(word), std::string::npos) << experiment << ": " << word;
  }
}

TEST_F(ErrorCommand, bad_input_is_one_clear_line) {
  const std::string nan = folder_ / "nan.npy", empty = folder_ / "empty.npy", text = folder_ / "x.txt";
  io::write_npy(nan, io::make_f32({2}, std::vector<float>{1, NAN}));
  io::write_npy(empty, io::make_f32({0}, {}));
  put_file(text, "1 2 3");
  put_file(folder_ / "broken.npy", "\x93NUMPY");
  const std::string large = npy({3e38f, 1}, {2});
  struct Row {
    std::string arguments;
    int code;
    const char* message;
  };
  const Row rows[] = {
      {"nope", 2, "nope"},
      {"blocks --dist cauchy", 2, "column 1: expected one of normal"},
      {"blocks --dist 'normal(-1)'", 2, "std must be from"},
      {"blocks --rows 0", 2, "--rows times --cols must be from 1 to 2^30, got 0 times 4096"},
      {"blocks --rows 1000000 --cols 1000000", 2, "--rows times --cols"},
      {"blocks --rows two", 2, "--rows: two is not a whole number"},
      {"blocks --seed 18446744073709551616", 2, "--seed"},
      {"blocks --seed -1", 2, "--seed"},
      {"blocks --methods ste", 2, "--methods takes hard, or the beta of soft, got ste"},
      {"blocks --methods 0", 2, "beta must be a number above 0"},
      {"blocks --methods hard,,10", 2, "--methods: an empty item"},
      {"blocks --blocks 48", 2, "b48"},
      {"blocks --scales e4m3/floor", 2, "e4m3/floor"},
      {"blocks --magnitudes 200", 2, "--magnitudes takes whole exponents of two from -126 to 127, got 200"},
      {"blocks --magnitudes 1.5", 2, "1.5"},
      {"blocks --element e9m1f", 2, "column 2: expected exponent bits"},
      {"blocks --element bf16", 2, "bf16"},
      {"blocks --rounding sr32", 2, "--rounding takes a deterministic rounding, got sr32"},
      {"blocks --backend gpu", 2, "unknown backend `gpu`"},
      {"blocks --threads -1", 2, "threads"},
      {"blocks --csv --json", 2, "excludes"},
      {"blocks --alphas 0.9", 2, "--alphas"},
      {"--rows 3 occ", 2, "options come after the experiment's name: --rows"},
      {"blocks --tensor missing.npy", 1, "missing.npy"},
      {"blocks --tensor " + text, 2, "--tensor takes a .npy or .safetensors file"},
      {"blocks --tensor " + nan, 1, "nan.npy: element 1 is not finite"},
      {"blocks --tensor " + empty, 1, "empty.npy: no elements"},
      {"blocks --tensor " + (folder_ / "broken.npy"), 1, "broken.npy"},
      {"blocks --methods hard --magnitudes 1 --tensor " + large, 1, "3e+38 times 2^1 is no binary32 number"},
      {"blocks --seed 1 --tensor " + large, 2, "--seed excludes --tensor"},
      {"blocks --name x", 2, "--name requires --tensor"},
      {"blocks --name x --tensor " + large, 2, "--name chooses a tensor of a .safetensors file"},
      {"occ --spec mxfp4+sr34", 2, "--spec takes a deterministic spec without transforms, got mxfp4+sr34"},
      {"occ --spec mxfp5", 2, "mxfp5"},
      {"occ --alphas 0.3", 2, "0.3"},
      {"occ --residuals none", 2, "--residuals: clamp without compensation is always shown"},
      {"occ --residuals e5m2", 2, "e5m2"},
      {"occ --quantiles column", 2, "--quantiles takes row or tensor, got column"},
      {"estimators --estimators 'dge(0.5)'", 2, "k must be a number above 1"},
      {"estimators --estimators hard", 2, "column 1: expected one of ste"},
      {"estimators --from 3 --to 2", 2, "--from must be below --to"},
      {"estimators --points 1", 2, "--points must be from 2 to"},
      {"estimators --gradient inf", 2, "--gradient must be a finite binary32 number"},
      {"estimators --element bf16", 2, "--element takes a format of at most 8 bits, got bf16"},
      {"estimators --dist normal --points 5", 2, "excludes"},
      {"estimators --rows 5", 2, "--rows requires --dist"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = fp4sim("error " + row.arguments);
    EXPECT_EQ(outcome.code, row.code) << row.arguments << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << row.arguments << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(row.message), std::string::npos) << row.arguments << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << row.arguments;
  }
}

}  // namespace
}  // namespace fp4sim::cli
