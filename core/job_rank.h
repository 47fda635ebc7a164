// Which process of a job this is, for what does not know of process groups.
#pragma once

#include <atomic>

namespace ferrite {

/// A process of a job.
struct JobRank {
  int rank = 0, size = 1;
};

/// Set with the first default process group (parallel/comm/process_group.h): rank and size of the
/// calling thread's default group, of 0 processes if there is none.
inline constinit std::atomic<JobRank (*)()> find_job_rank{nullptr};

}  // namespace ferrite
