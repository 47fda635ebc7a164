// Runs a planted program in a separate process, because an error ends it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace emulator_test {

struct Outcome {
  bool finished = false;  // with exit code 0
  bool right = false;     // and the right result
  std::string output;     // of both streams
};

using Environment = std::vector<std::pair<std::string, std::string>>;

Outcome run_planted(const std::string& name, const Environment& environment = {});

}  // namespace emulator_test
