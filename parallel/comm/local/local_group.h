// Process groups of one process: each rank is a thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

struct LocalGroupOptions {
  Milliseconds timeout = std::chrono::minutes(10);
};

/// One handle a rank, for as many threads. Tensors may be on the host, on virtual devices or on
/// CUDA devices, each rank's on one of its own. ValueError for fewer than one rank.
std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(int ranks,
                                                             const LocalGroupOptions& options = {});

/// Runs `f` as every rank of a new group, each in a thread of its own with the group as its default
/// group, and waits for all. What a rank throws aborts the group; the exception that came first is
/// rethrown when all have ended.
void run_ranks(int ranks, const std::function<void(ProcessGroup&)>& f,
               const LocalGroupOptions& options = {});

}  // namespace ferrite::parallel
