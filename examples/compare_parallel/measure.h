// How compare_parallel measures: in processes that it starts, each of which runs one strategy once,
// or finds what simulations need to know of one device and of links.
#pragma once

#include <nlohmann/json.hpp>

#include "ferrite/examples/compare_parallel/measurement.h"
#include "ferrite/examples/compare_parallel/options.h"

namespace examples::compare {

/// What a process is to do, the same for all ranks.
struct Job {
  std::string task;  ///< "case", "profile" (of one device), "side by side", "links", "model"
  Case what;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Job, task, what)

/// How many processes a job takes.
int processes_of(const Options& options, const Job& job);

/// What a rank has found of a case.
struct RankResult {
  double step_ms = 0, alone_ms = 0;
  std::vector<std::int64_t> peak_memory;  ///< of each of its devices
  Communication communication;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, step_ms, alone_ms, peak_memory, communication)

/// The exit status of a rank that failed because of another one, or could not exchange with it.
inline constexpr int kFailedWithOthers = 3;

/// The process that --worker asks for: does --job and writes rank-<number>.json into the folder.
/// Returns its exit status.
int run_worker(const Options& options);

/// A training step on one device, whose batch is that of `what`: medians of several.
ferrite::planning::ModelProfile measure_profile(const Options& options, const Case& what);
Model measure_model(const Options& options);
/// Between the ranks of this thread's default group; on all of them.
std::vector<Link> measure_group_links(const Options& options);
/// Between so many devices of this process.
std::vector<Link> measure_device_links(const Options& options, int devices);

// ---- The process that starts them

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

/// What the devices are.
Machine describe_machine(const Options& options);

/// Measures all cases in every repetition, one after another, so that what else the machine does
/// meets them all alike; in every second one backwards. A case that fails has its error in its row,
/// and is left out from then on. `arguments` are the program's own.
Measurement measure_all(const Options& options, const std::vector<std::string>& arguments);

}  // namespace examples::compare
