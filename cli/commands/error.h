// The experiments of `fp4sim error`: each takes its options and a tensor, runs the ops on a backend and returns a
// table. Nothing here computes a quantized value: those come from the backend's ops alone.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/table.h"
#include "reference/contract/backend.h"

namespace fp4sim::cli {

/// A tensor to measure on, with the words that name it in tables.
struct ErrorData {
  std::string source;
  Shape shape;  // blocks, rows and quantiles run along the last axis
  std::vector<float> values;
};

/// Where the tensor comes from: a distribution, or a file.
struct ErrorDataOptions {
  std::string distribution;  // parse_distribution; empty with a file
  int64_t rows = 32, columns = 4096;
  uint64_t seed = 0;
  std::string file, name;  // .npy or .safetensors; a tensor's name there
};

/// The tensor. Throws UsageError for a distribution or an option, Error naming the file where it cannot be used: not
/// there, no elements, a NaN or an Inf.
ErrorData load_error_data(const ErrorDataOptions& options);

/// source, shape, elements and moments of the tensor: one row.
Table describe_data(const ErrorData& data);

/// The items of option values: each is cut at its commas outside parentheses; empty items are UsageErrors naming the
/// option.
std::vector<std::string> split_list(const std::vector<std::string>& values, const std::string& option);

/// Relative error: every scale × method × magnitude × block. A method is `hard` or the β of the soft forward value.
struct BlocksOptions {
  std::vector<std::string> methods = {"hard", "10", "40"};
  std::vector<std::string> blocks = {"16", "32", "64", "128"};  // B, or any granularity of a spec
  std::vector<std::string> scales = {"e4m3/one", "e4m3/te", "e8m0"};
  std::vector<std::string> magnitudes = {"-20", "-16", "-12", "-8", "-4", "0", "4", "8", "12", "16", "20"};
  std::string element = "e2m1", rounding = "rne";
};
extern const char* const kBlocksHelp;
Table run_blocks(const BlocksOptions& options, const ErrorData& data, Backend& backend);

/// Outlier clamping and compensation: no clamp, then for every α clamp alone and with each residual format.
struct OccOptions {
  std::string spec = "e2m1:row:fp32:rne";
  std::vector<std::string> alphas = {"0.999", "0.99", "0.97"};
  std::vector<std::string> residuals = {"bf16"};
  std::string quantiles = "row";
};
extern const char* const kOccHelp;
Table run_occ(const OccOptions& options, const ErrorData& data, Backend& backend);

/// Estimator curves: forward value and derivative of every estimator at every y.
struct EstimatorsOptions {
  std::vector<std::string> estimators = {"ste",      "ste_clip", "dge",       "soft(20)",
                                         "dsq(0.2)", "quest",    "ewgs(0.1)", "soft(20,forward=soft)"};
  std::string element = "e2m1";
  double from = -8, to = 8;
  int64_t points = 257;
  double gradient = 1;  // dx̂, the gradient that comes in
  bool summary = false;
};
extern const char* const kEstimatorsHelp;
/// The points from … to in equal steps, each rounded once to binary32.
ErrorData estimator_grid(const EstimatorsOptions& options);
/// data: the values of y; they are taken in ascending order.
Table run_estimators(const EstimatorsOptions& options, const ErrorData& data, Backend& backend);

}  // namespace fp4sim::cli
