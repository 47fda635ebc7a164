// How ranks that share a store join: each registers, and waits for the others.
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
  std::string owner;  ///< the server of the store, for messages
  /// The store outlives this start of the job: it may hold keys of other, complete ones, which are
  /// skipped.
  bool of_many_starts = false;
  std::chrono::milliseconds timeout{};  ///< of the monitor
};

struct Joined {
  std::string prefix;  ///< prefix of this start's keys
  std::shared_ptr<TcpMonitor> monitor;
};

/// Returns when all ranks have arrived, or nothing if the store belongs to a job that is already
/// complete. DistributedError naming the ranks that do not arrive by `deadline`, have the same
/// number, disagree on the world size or are lost in the meantime; the same error on all ranks that
/// are present.
std::optional<Joined> join(const std::shared_ptr<TcpStore>& store, const JoinOptions& options,
                           links::Deadline deadline);

}  // namespace ferrite::parallel::bootstrap
