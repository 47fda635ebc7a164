// How ranks that share a store come together: each says that it is there, and waits for the others.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ferrite/parallel/comm/bootstrap/job_environment.h"
#include "ferrite/parallel/comm/bootstrap/tcp_monitor.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"

namespace ferrite::parallel::bootstrap {

struct JoinOptions {
  Place place;
  std::string token;
  std::string owner;  ///< who serves the store, for messages
  /// The store outlives this start of the job: it may hold others, complete ones, whose keys are
  /// passed over.
  bool of_many_starts = false;
  std::chrono::milliseconds timeout{};  ///< of the monitor
};

struct Joined {
  std::string prefix;  ///< of this start's keys
  std::shared_ptr<TcpMonitor> monitor;
};

/// Returns when all ranks have come, or nothing where the store is that of a job which is complete
/// already. DistributedError naming the ranks that do not come by `deadline`, that come twice, that
/// do not agree on the world's size or that are lost meanwhile: the same on all ranks that are
/// there.
std::optional<Joined> join(const std::shared_ptr<TcpStore>& store, const JoinOptions& options,
                           links::Deadline deadline);

}  // namespace ferrite::parallel::bootstrap
