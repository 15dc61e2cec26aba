#include "cli/commands/piece_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands/common.h"
#include "cli/commands/whole_number.h"

namespace fp4sim::cli {

void add_piece_options(CLI::App& command, PieceOptions& options) {
  command.add_option("--backend", options.backend, kBackendHelp)->capture_default_str();
  command.add_option("--threads", options.threads, "Threads of simd (0: all cores)")->capture_default_str();
  command
      .add_option("--piece-bytes", options.piece_bytes,
                  "Values held at once, in bytes of binary32; no result depends on it")
      ->check(whole_number<int64_t>)
      ->capture_default_str();
}

std::unique_ptr<Backend> make_piece_backend(const PieceOptions& options) {
  if (options.piece_bytes < 4)
    throw UsageError(fmt::format("--piece-bytes must be at least 4, got {}", options.piece_bytes));
  return make_backend(options.backend, options.threads);
}

Error out_of_memory(const PieceOptions& options) {
  return Error(fmt::format("not enough memory: pieces of {} bytes need about eight times as much (--piece-bytes)",
                           options.piece_bytes));
}

}  // namespace fp4sim::cli
