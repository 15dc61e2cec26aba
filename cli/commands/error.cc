// fp4sim error: error tables and estimator curves. The options of the experiments; the work is in error_*.cc.
#include "cli/commands/error.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/common.h"
#include "cli/commands/distributions.h"
#include "cli/commands/whole_number.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct RunOptions {
  std::string backend = "simd";
  int threads = 0;
  bool csv = false, json = false;
};

struct Options {
  ErrorDataOptions data;
  RunOptions run;
  BlocksOptions blocks;
  OccOptions occ;
  EstimatorsOptions estimators;
};

/// An option of a list: items separated by commas or by spaces.
void add_list(CLI::App& command, const char* name, std::vector<std::string>& list, const std::string& help) {
  command.add_option(name, list, help)->type_name("LIST")->capture_default_str();
}

template <class T>
CLI::Option* add_whole(CLI::App& command, const char* name, T& value, const std::string& help) {
  return command.add_option(name, value, help)->check(whole_number<T>)->capture_default_str()->take_last();
}

std::string distributions_help() {
  std::string text = "NAME or NAME(values):";
  for (const DistributionRow& row : kDistributions)
    text += "\n" + distribution_text(parse_distribution(row.name)) + ": " + row.meaning;
  return text;
}

void add_data_options(CLI::App& command, ErrorDataOptions& o) {
  CLI::Option* dist = command.add_option("--dist", o.distribution, distributions_help());
  if (!o.distribution.empty()) dist->capture_default_str();
  CLI::Option* rows = add_whole(command, "--rows", o.rows, "rows drawn");
  CLI::Option* columns = add_whole(command, "--cols", o.columns, "columns drawn; blocks and rows run along them");
  CLI::Option* seed = add_whole(command, "--seed", o.seed, "of the draw");
  CLI::Option* file = command.add_option("--tensor", o.file, ".npy or .safetensors file instead of a distribution");
  for (CLI::Option* option : {dist, rows, columns, seed}) file->excludes(option);
  command.add_option("--name", o.name, "which tensor of a .safetensors file")->needs(file);
}

void add_run_options(CLI::App& command, RunOptions& o) {
  command.add_option("--backend", o.backend, kBackendHelp)->capture_default_str();
  add_whole(command, "--threads", o.threads, "CPU threads (0: all cores); the result does not depend on them");
  CLI::Option* csv = command.add_flag("--csv", o.csv, "the result as CSV");
  command.add_flag("--json", o.json, "the result and the data's description as JSON")->excludes(csv);
}

void add_blocks_options(CLI::App& command, Options& o) {
  o.data.distribution = "normal";
  add_data_options(command, o.data);
  add_list(command, "--methods", o.blocks.methods, "hard, or the beta of the soft forward value");
  add_list(command, "--blocks", o.blocks.blocks, "block sizes; also row, col, tensor, 2d16, 2d32");
  add_list(command, "--scales", o.blocks.scales, "scale formats and rules as in a spec");
  add_list(command, "--magnitudes", o.blocks.magnitudes,
           "exponents m; a list that begins with a minus: --magnitudes=-4,0");
  command.add_option("--element", o.blocks.element, "element format")->capture_default_str();
  command.add_option("--rounding", o.blocks.rounding, "deterministic rounding of the elements")->capture_default_str();
  add_run_options(command, o.run);
  command.footer(kBlocksHelp);
}

void add_occ_options(CLI::App& command, Options& o) {
  o.data.distribution = "outlier-channels";
  add_data_options(command, o.data);
  command.add_option("--spec", o.occ.spec, "how x and the clamped x are quantized")->capture_default_str();
  add_list(command, "--alphas", o.occ.alphas, "quantiles, from 0.5 to 1");
  add_list(command, "--residuals", o.occ.residuals, "formats of the residual: fp32, bf16, e4m3");
  command.add_option("--quantiles", o.occ.quantiles, "of each row or of the tensor")->capture_default_str();
  add_run_options(command, o.run);
  command.footer(kOccHelp);
}

void add_estimators_options(CLI::App& command, Options& o) {
  add_list(command, "--estimators", o.estimators.estimators, "estimators with their parameters; quote the parentheses");
  command.add_option("--element", o.estimators.element, "element format")->capture_default_str();
  std::vector<CLI::Option*> grid;
  grid.push_back(command.add_option("--from", o.estimators.from, "first y; --from=-8")->capture_default_str());
  grid.push_back(command.add_option("--to", o.estimators.to, "last y")->capture_default_str());
  grid.push_back(add_whole(command, "--points", o.estimators.points, "number of y"));
  command.add_option("--gradient", o.estimators.gradient, "the gradient that comes in")->capture_default_str();
  command.add_flag("--summary", o.estimators.summary, "one row an estimator instead of its curve");
  add_data_options(command, o.data);
  for (CLI::Option* option : grid)
    for (const char* data : {"--dist", "--tensor"}) command.get_option(data)->excludes(option);
  for (const char* option : {"--rows", "--cols", "--seed"}) command.get_option(option)->needs("--dist");
  add_run_options(command, o.run);
  command.footer(kEstimatorsHelp);
}

ErrorData estimator_points(const Options& o) {
  const bool drawn = !o.data.distribution.empty() || !o.data.file.empty();
  return drawn ? load_error_data(o.data) : estimator_grid(o.estimators);
}

/// One row an experiment.
struct Experiment {
  const char* name;
  const char* help;
  void (*add_options)(CLI::App&, Options&);
  ErrorData (*data)(const Options&);
  Table (*run)(const Options&, const ErrorData&, Backend&);
};
constexpr Experiment kExperiments[] = {
    {"blocks", "Relative error by method, block size, scale format and magnitude", add_blocks_options,
     [](const Options& o) { return load_error_data(o.data); },
     [](const Options& o, const ErrorData& data, Backend& b) { return run_blocks(o.blocks, data, b); }},
    {"occ", "Outlier clamping and compensation: cosine, MSE, SNR", add_occ_options,
     [](const Options& o) { return load_error_data(o.data); },
     [](const Options& o, const ErrorData& data, Backend& b) { return run_occ(o.occ, data, b); }},
    {"estimators", "Forward value and derivative of gradient estimators against y", add_estimators_options,
     estimator_points,
     [](const Options& o, const ErrorData& data, Backend& b) { return run_estimators(o.estimators, data, b); }},
};

void run(const Experiment& experiment, const Options& o) {
  const std::unique_ptr<Backend> backend = make_backend(o.run.backend, o.run.threads);
  const ErrorData data = experiment.data(o);
  const Table result = experiment.run(o, data, *backend);
  const TableStyle style = o.run.csv ? TableStyle::csv : o.run.json ? TableStyle::json : TableStyle::text;
  // CSV is one table.
  const std::string text =
      style == TableStyle::csv ? print_tables({result}, style) : print_tables({describe_data(data), result}, style);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_error_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "error", "Measure quantization error and estimators on a distribution or a tensor; without a name: blocks");
  auto own = std::make_shared<Options>();  // `fp4sim error --dist normal` is `fp4sim error blocks --dist normal`
  kExperiments[0].add_options(*command, *own);
  command->require_subcommand(0, 1);
  for (const Experiment& experiment : kExperiments) {
    auto o = std::make_shared<Options>();
    CLI::App* sub = command->add_subcommand(experiment.name, experiment.help);
    experiment.add_options(*sub, *o);
    sub->callback([&experiment, o, command] {
      for (const CLI::Option* option : command->get_options())
        if (option->count() > 0)
          throw UsageError("error: options come after the experiment's name: " + option->get_name());
      run(experiment, *o);
    });
  }
  command->callback([own, command] {
    if (command->get_subcommands().empty()) run(kExperiments[0], *own);
  });
}

}  // namespace fp4sim::cli
