// fp4sim fuzz: random cases of every op on two backends, bits compared; and replay of a case file.
#include "fuzz/differential.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

#include "cli/commands/commands.h"
#include "cli/commands/common.h"
#include "cli/commands/whole_number.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  std::string backend = "simd", against = "scalar", op = "*", replay, out = ".";
  std::optional<double> seconds;
  std::optional<int64_t> iterations;
  std::optional<uint64_t> seed;
  int threads = 0;
};

constexpr int64_t kDefaultIterations = 200;
constexpr double kProgressSeconds = 2;

void replay(const Options& o) {
  const fuzz::Case c = fuzz::load_case(o.replay);
  fmt::print("case {}\n  {}\n  {}\n", o.replay, fuzz::describe(c), c.origin);
  const auto tested = make_backend(o.backend, o.threads), oracle = make_backend(o.against, o.threads);
  const std::optional<fuzz::Mismatch> oracle_mismatch = fuzz::replay_case(*oracle, c);
  const std::optional<fuzz::Mismatch> mismatch = fuzz::replay_case(*tested, c);
  fmt::print("  {}: {} the stored outputs\n", o.against, oracle_mismatch ? "differs from" : "gives");
  fmt::print("  {}: {} the stored outputs\n", o.backend, mismatch ? "differs from" : "gives");
  if (mismatch) throw fuzz::MismatchError(*mismatch, o.replay);
  if (oracle_mismatch) throw fuzz::MismatchError(*oracle_mismatch, o.replay);
}

/// A line every few seconds on stderr, so that stdout holds the table alone.
class Progress {
 public:
  void operator()(const fuzz::DifferentialReport& report) {
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - last_).count() < kProgressSeconds) return;
    last_ = now;
    int64_t cases = 0;
    size_t failures = 0;
    for (const fuzz::OpReport& op : report.ops) cases += op.cases, failures += op.failures.size();
    fmt::print(stderr, "{:.0f} s: {} cases, {} failures\n", std::chrono::duration<double>(now - begin_).count(), cases,
               failures);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

void print_table(const fuzz::DifferentialReport& report) {
  fmt::print("{:<22}{:>10}{:>14}{:>10}\n", "op", "cases", "elements", "failures");
  fuzz::OpReport total;
  size_t failures = 0;
  for (const fuzz::OpReport& op : report.ops) {
    fmt::print("{:<22}{:>10}{:>14}{:>10}\n", op_name(op.op), op.cases, op.elements, op.failures.size());
    total.cases += op.cases;
    total.elements += op.elements;
    failures += op.failures.size();
  }
  fmt::print("{:<22}{:>10}{:>14}{:>10}\n", "total", total.cases, total.elements, failures);
}

/// Writes one case file a failure; returns the path of the first, empty if there is none.
std::string write_cases(const fuzz::DifferentialReport& report, const Options& o) {
  std::string first;
  for (const fuzz::OpReport& op : report.ops)
    for (const fuzz::Failure& failure : op.failures) {
      const std::string path =
          (std::filesystem::path(o.out) / fmt::format("mismatch-{}.case", op_name(op.op))).string();
      fuzz::save_case(path, failure.shrunk);
      fmt::print("{}\n  {}\n  fp4sim fuzz --replay {} --backend {} --against {}\n", to_string(failure.mismatch),
                 to_string(failure.parameters), path, o.backend, o.against);
      if (first.empty()) first = path;
    }
  return first;
}

void run(const Options& o) {
  if (!o.replay.empty()) return replay(o);
  if (!(o.seconds.value_or(1) > 0)) throw UsageError(fmt::format("--seconds must be positive, got {}", *o.seconds));
  if (o.iterations.value_or(1) < 1)
    throw UsageError(fmt::format("--iterations must be positive, got {}", *o.iterations));
  const auto tested = make_backend(o.backend, o.threads), oracle = make_backend(o.against, o.threads);
  fuzz::DifferentialOptions options;
  options.op_glob = o.op;
  options.seconds = o.seconds.value_or(0);
  options.iterations = o.iterations.value_or(o.seconds ? 0 : kDefaultIterations);
  options.seed = o.seed.value_or(std::random_device{}());
  options.progress = Progress{};
  fmt::print("{} against {}, seed {}\n", tested->name(), oracle->name(), options.seed);
  const fuzz::DifferentialReport report = fuzz::fuzz_ops(*tested, *oracle, options);
  print_table(report);
  const std::string path = write_cases(report, o);
  for (const fuzz::OpReport& op : report.ops)
    if (!op.failures.empty()) throw fuzz::MismatchError(op.failures[0].mismatch, path);
}

}  // namespace

void add_fuzz_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("fuzz", "Run random cases of every op on two backends and compare bits");
  command->add_option("--backend", o->backend, std::string("The backend under test: ") + kBackendHelp)
      ->capture_default_str();
  command->add_option("--against", o->against, "The oracle")->capture_default_str();
  auto* replayed = command->add_option("--replay", o->replay, "Run a case file instead");
  // A case file has its inputs: nothing is drawn.
  const auto drawn = [&](const char* name, auto& value, const std::string& help) {
    return command->add_option(name, value, help)->excludes(replayed);
  };
  drawn("--op", o->op, "Ops by name, with * and ?")->capture_default_str();
  drawn("--seconds", o->seconds, "Stop after this time");
  drawn("--iterations", o->iterations, fmt::format("Cases an op ({} if no time is given)", kDefaultIterations))
      ->check(whole_number<int64_t>);
  drawn("--seed", o->seed, "First seed; a fresh one, printed, if not given")->check(whole_number<uint64_t>);
  command->add_option("--out", o->out, "Directory of the case files of failures")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_option("--threads", o->threads, "Threads of simd (0: all cores)")->capture_default_str();
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
