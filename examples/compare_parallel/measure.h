// What the processes that compare_parallel starts do: one strategy once, or what simulations need
// to know of one device and of links.
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
  double communication_ms = 0, hidden_ms = 0;
  std::int64_t bytes_total = 0, bytes_busiest = 0;
  std::vector<std::int64_t> peak_memory;  ///< of each of its devices
  std::vector<Bucket> buckets;
  std::map<std::string, double> parts;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, step_ms, alone_ms, communication_ms, hidden_ms,
                                   bytes_total, bytes_busiest, peak_memory, buckets, parts)

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

}  // namespace examples::compare
