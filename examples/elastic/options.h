// The command line of this example.
#pragma once

#include <cstdint>
#include <optional>

#include "ferrite/examples/common/training_options.h"

namespace examples::elastic {

struct Options : TrainingOptions {
  std::int64_t save_every = 50;
  int keep = 2;
  std::int64_t print_freq = 50;
  std::int64_t kill_every = 0;
};

/// Returns nullopt if the program must end with `exit_code`.
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace examples::elastic
