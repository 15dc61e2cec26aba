// MismatchError: two backends gave different bits. The program's exit code for it is 3.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/case_file.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {

/// Where two runs of one node differ.
struct Mismatch {
  Op op{};
  std::string node;                      // the node's name
  size_t output = 0;                     // which output of the node
  Difference difference;                 // component, element index, both bit patterns
  std::string shapes;                    // input and output types as text
  std::string expected_by, computed_by;  // backend names
};

/// One line with everything of the mismatch.
std::string to_string(const Mismatch& mismatch);

/// The first mismatch of `actual` against `expected` outputs of a case, or nothing.
std::optional<Mismatch> compare_outputs(const Case& c, const std::vector<HostValue>& expected,
                                        const std::vector<HostValue>& actual);

class MismatchError : public Error {
 public:
  MismatchError(Mismatch mismatch, std::string case_path);
  /// For a mismatch that is not one node's (golden files, a summary of many).
  explicit MismatchError(const std::string& message);

  /// Where the runs differ; default values for a mismatch that is not one node's.
  const Mismatch& mismatch() const { return mismatch_; }
  /// The replayable case file, or empty where none was asked for.
  const std::string& case_path() const { return case_path_; }

 private:
  Mismatch mismatch_;
  std::string case_path_;
};

}  // namespace fp4sim::fuzz
