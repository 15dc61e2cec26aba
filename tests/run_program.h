// Runs the program itself: its exit code and what it printed.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/temp_folder.h"

namespace fp4sim::testing {

struct Outcome {
  int code;
  std::string out, err;
};

/// Runs `fp4sim ARGUMENTS` through the shell.
inline Outcome fp4sim(const std::string& arguments) {
  const TempFolder folder;
  const std::string command = std::string(FP4SIM_PROGRAM) + " " + arguments + " 2> " + (folder / "err");
  FILE* pipe = ::popen(command.c_str(), "r");
  Outcome outcome{-1, "", ""};
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) outcome.out.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.err = get_file(folder / "err");
  return outcome;
}

}  // namespace fp4sim::testing
