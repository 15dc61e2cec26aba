// fp4sim: the program. Registers the subcommands and maps errors to exit codes: 0 ok, 1 runtime error, 2 usage, 3
// mismatch.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>

#include "cli/commands/commands.h"
#include "fuzz/mismatch.h"
#include "reference/contract/error.h"
#include "reference/contract/numerics_version.h"

namespace {

/// Threads that wait for the next node spin; without a bound they take a busy machine's other cores and a step becomes
/// ten times slower. OpenMP reads its settings before main, so the program starts itself again with a bound of about
/// 30 microseconds; a setting of the user's wins.
void bound_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "10000", 1);
  execv("/proc/self/exe", argv);  // returns only where /proc is missing: then without the bound
}

bool knows_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands([&](const CLI::App* command) { return command->check_name(name); });
  return !commands.empty();
}

int run(int argc, char** argv) {
  CLI::App app{"fp4sim: bit-exact simulator of 4-bit floating-point training", "fp4sim"};
  app.set_version_flag("--version",
                       "fp4sim " FP4SIM_VERSION ", numerics_version " + std::to_string(fp4sim::kNumericsVersion));
  app.require_subcommand(1);
  app.footer("Exit codes: 0 ok, 1 runtime error, 2 usage, 3 mismatch found.");
  fp4sim::cli::add_train_command(app);
  fp4sim::cli::add_eval_command(app);
  fp4sim::cli::add_generate_command(app);
  fp4sim::cli::add_formats_command(app);
  fp4sim::cli::add_quantize_command(app);
  fp4sim::cli::add_dequantize_command(app);
  fp4sim::cli::add_error_command(app);
  fp4sim::cli::add_graph_command(app);
  fp4sim::cli::add_golden_command(app);
  fp4sim::cli::add_fuzz_command(app);
  fp4sim::cli::add_devices_command(app);
  if (argc > 1 && argv[1][0] != '-' && !knows_command(app, argv[1]))
    throw fp4sim::UsageError(std::string("unknown command `") + argv[1] + "` (see fp4sim --help)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::Error& e) {
    std::fprintf(stderr, "fp4sim: %s (see fp4sim --help)\n", e.what());
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bound_spinning(argv);
  try {
    return run(argc, argv);
  } catch (const fp4sim::fuzz::MismatchError& e) {
    std::fprintf(stderr, "fp4sim: mismatch: %s\n", e.what());
    return 3;
  } catch (const fp4sim::UsageError& e) {
    std::fprintf(stderr, "fp4sim: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fp4sim: %s\n", e.what());
    return 1;
  }
}
