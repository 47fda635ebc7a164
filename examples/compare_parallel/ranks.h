// Processes of this program, one or one a rank, that do a job and report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/examples/compare_parallel/measure.h"

namespace examples::compare {

struct Outcome {
  /// Why there are no results; "" where all processes ended well.
  std::string error;
  /// What each rank has found.
  std::vector<nlohmann::json> ranks;
};

/// Starts this program again for each process of the job, with `arguments` (its own command line)
/// and what the job is, and waits for them: for --timeout seconds and a few. When one fails the
/// others are ended, and none is left behind. IoError where no process can be started,
/// Error where SIGINT or SIGTERM asks this one to end.
Outcome run_processes(const Options& options, const std::vector<std::string>& arguments,
                      const Job& job);

}  // namespace examples::compare
