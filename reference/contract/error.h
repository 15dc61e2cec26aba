// The one exception type of the project. Numeric events (NaN, overflow) are results, never errors.
#pragma once

#include <stdexcept>
#include <string>

namespace fp4sim {

/// Misuse or a failed operation, said in one line with the values and units that were wrong.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An error in what the user typed (unknown option value, recipe key, format): exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace fp4sim
