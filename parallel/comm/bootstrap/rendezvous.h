// Rendezvous: how the ranks of a job find each other.
//
//   env://              rank 0 serves the store at MASTER_ADDR:MASTER_PORT, or the launcher does
//                       (parallel/comm/bootstrap/job_environment.h)
//   tcp://host:port     rank 0 serves it there
//   file:///path        rank 0 serves it at any free port (of MASTER_ADDR, else localhost) and
//                       writes into the file where, and a secret token; the path is one that all
//                       ranks see and each job has its own. A file that an earlier job left does
//                       no harm.
//
// The store listens at that address alone; where it is not this host's own (behind a translation of
// addresses, or a name that stands for 127.0.1.1 on the host itself), FERRITE_BIND_ADDR says where
// instead, "0.0.0.0" for everywhere. Who may join is told by a token: see tcp_store_server.h.
#pragma once

#include <memory>
#include <string>

#include "ferrite/parallel/comm/bootstrap/job_environment.h"
#include "ferrite/parallel/comm/bootstrap/monitor.h"
#include "ferrite/parallel/comm/bootstrap/store.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// A process's membership in a job that has come together. To be kept as long as it takes part.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;  ///< leaves, with a linger of 2 s
  virtual const bootstrap::Place& place() const = 0;
  /// Whose keys are those of this start of the job.
  virtual const std::shared_ptr<Store>& store() const = 0;
  virtual const std::shared_ptr<bootstrap::Monitor>& monitor() const = 0;
  /// Says goodbye to the other ranks. The rank that serves the store waits until all have left, at
  /// most `linger`: what they do without a store is what they had begun. Once; the store and the
  /// monitor are of no use afterwards.
  virtual void leave(Milliseconds linger = std::chrono::seconds(10)) = 0;
};

/// Returns when all ranks have come. By `options`: init_method, rank, world_size and timeout.
/// ValueError for what cannot work (a variable that is missing, a rank that is not below the world
/// size); DistributedError, naming them, where ranks do not come in time, where two say that they
/// are the same, or where they do not agree on the world's size.
std::unique_ptr<Rendezvous> rendezvous(const InitOptions& options);

}  // namespace ferrite::parallel
