// Process groups within one process: each rank is a thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// The options of groups within one process.
struct LocalGroupOptions {
  Milliseconds timeout = std::chrono::minutes(10);
};

/// One handle per rank, for as many threads. Tensors may be on the host, on virtual devices or on
/// CUDA devices, a different one for each rank. ValueError for fewer than one rank.
std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(int ranks,
                                                             const LocalGroupOptions& options = {});

/// Runs `f` as every rank of a new group, each in its own thread with the group as its default
/// group, and waits for all. An exception of a rank aborts the group; the first exception is
/// rethrown when all have ended. ValueError for fewer than one rank.
///
///   parallel::run_ranks(4, [](parallel::ProcessGroup& group) {
///     Tensor sum = full({1}, group.rank());
///     parallel::all_reduce(sum);  // 6 on each rank
///   });
void run_ranks(int ranks, const std::function<void(ProcessGroup&)>& f,
               const LocalGroupOptions& options = {});

}  // namespace ferrite::parallel
