// fp4sim golden: checks a backend against the golden files, or writes those of golden/run anew from the scalar backend.
// golden/spec has other formats and other programs' numbers: the tests read it.
#include "fuzz/golden.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/common.h"
#include "fuzz/golden_training.h"
#include "fuzz/mismatch.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  std::string backend = "simd", directory = "golden";
  bool check = false, bless = false;
  int threads = 0;
};

constexpr size_t kShown = 20;  // differences printed; the count is always whole

/// The folder itself, or its part `run` where it has one.
std::string run_part(const Options& o) {
  const std::filesystem::path part = std::filesystem::path(o.directory) / "run";
  return std::filesystem::is_directory(part) ? part.string() : o.directory;
}

void check(const Options& o) {
  const auto backend = make_backend(o.backend, o.threads), maker = make_backend("scalar", 0);
  const fuzz::GoldenReport ops = fuzz::check_golden_ops(*backend, *maker, run_part(o));
  const fuzz::GoldenReport training = fuzz::check_golden_training(*backend, run_part(o));
  const fuzz::GoldenReport cases = fuzz::check_golden_cases(*backend, o.directory);
  size_t shown = 0;
  for (const fuzz::GoldenReport* report : {&ops, &training, &cases})
    for (const std::string& difference : report->differences)
      if (shown++ < kShown) fmt::print("{}\n", difference);
  fmt::print("{}: {} op lines, {} differ; {} training runs, {} differ; {} cases, {} differ\n", backend->name(),
             ops.rows, ops.differences.size(), training.rows, training.differences.size(), cases.rows,
             cases.differences.size());
  if (shown > 0) throw fuzz::MismatchError(fmt::format("{} golden rows differ", shown));
}

void bless(const Options& o) {
  const auto scalar = make_backend("scalar", o.threads);
  const int64_t lines = fuzz::bless_golden_ops(*scalar, run_part(o));
  const int64_t runs = fuzz::bless_golden_training(*scalar, run_part(o));
  fmt::print("{} op lines and {} training runs written to {} by the scalar backend\n", lines, runs, run_part(o));
}

void run(const Options& o) {
  if (o.check == o.bless) throw UsageError("golden takes either --check or --bless");
  if (o.bless && o.backend != "scalar" && o.backend != Options{}.backend)
    throw UsageError("golden --bless writes what the scalar backend computes: leave --backend away");
  o.check ? check(o) : bless(o);
}

}  // namespace

void add_golden_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("golden", "Check a backend against the golden files, or write them anew");
  command->add_flag("--check", o->check, "Compare with the files; exit code 3 where something differs");
  command->add_flag("--bless", o->bless, "Write the files from the scalar backend");
  command->add_option("--backend", o->backend, std::string("The backend to check: ") + kBackendHelp)
      ->capture_default_str();
  command->add_option("--threads", o->threads, "Threads of simd (0: all cores)")->capture_default_str();
  command
      ->add_option("directory", o->directory,
                   "The folder of the golden files: its parts run and cases, or a run part alone")
      ->capture_default_str();
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
