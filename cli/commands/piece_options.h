// What quantize and dequantize share: the backend that works on pieces of a file, and how large the pieces are.
#pragma once

#include <memory>
#include <string>

#include "cli/commands/quantize_cut.h"
#include "reference/contract/backend.h"
#include "reference/contract/error.h"

namespace CLI {
class App;
}

namespace fp4sim::cli {

struct PieceOptions {
  std::string backend = "simd";
  int threads = 0;
  int64_t piece_bytes = kPieceBytes;
};

/// Adds --backend, --threads and --piece-bytes; `options` must outlive the parse.
void add_piece_options(CLI::App& command, PieceOptions& options);

/// The backend asked for. UsageError for it, or for pieces smaller than a value.
std::unique_ptr<Backend> make_piece_backend(const PieceOptions& options);

/// What std::bad_alloc during the work is reported as.
Error out_of_memory(const PieceOptions& options);

}  // namespace fp4sim::cli
