// Rendezvous: how the ranks of a job find each other.
//
//   env://              rank 0 serves the store at MASTER_ADDR:MASTER_PORT, or the launcher does
//                       (parallel/comm/bootstrap/job_environment.h)
//   tcp://host:port     rank 0 serves it there
//   file:///path        rank 0 serves it at any free port (of MASTER_ADDR, else localhost) and
//                       writes the address and a secret token into the file. The path must be
//                       visible to all ranks and unique to the job. A file left by an earlier job
//                       does no harm.
//
// The store listens only at that address. If it is not this host's own (behind NAT, or a name that
// resolves to 127.0.1.1 on the host itself), FERRITE_BIND_ADDR sets the address to listen at,
// "0.0.0.0" for all. Joining requires a token: see tcp_store_server.h.
#pragma once

#include <memory>
#include <string>

#include "ferrite/parallel/comm/bootstrap/job_environment.h"
#include "ferrite/parallel/comm/bootstrap/monitor.h"
#include "ferrite/parallel/comm/bootstrap/store.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

namespace bootstrap {
class TcpMonitor;
}

/// A process's membership in a complete job. Keep it as long as the process takes part.
class Rendezvous {
 public:
  struct Served;  // what rank 0 has to keep
  Rendezvous(const bootstrap::Place& place, std::unique_ptr<Served> served,
             std::shared_ptr<Store> store, std::shared_ptr<bootstrap::TcpMonitor> monitor);
  ~Rendezvous();  ///< leaves, with a linger of 2 s

  /// This process's place in the job.
  const bootstrap::Place& place() const { return place_; }
  /// A store with the keys of this start of the job.
  const std::shared_ptr<Store>& store() const { return store_; }
  /// The object that finds lost ranks.
  std::shared_ptr<bootstrap::Monitor> monitor() const;
  /// Says goodbye to the other ranks. The rank that serves the store waits until all have left, for
  /// at most `linger`: without a store they can only finish what they had begun. Call it once; the
  /// store and the monitor are unusable afterwards.
  void leave(Milliseconds linger = std::chrono::seconds(10));

 private:
  const bootstrap::Place place_;
  std::unique_ptr<Served> served_;
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<bootstrap::TcpMonitor> monitor_;
};

/// Returns when all ranks have arrived. Uses init_method, rank, world_size and timeout of
/// `options`. ValueError for invalid settings (a missing variable, a rank that is not below the
/// world size); DistributedError, naming the ranks, if they do not arrive in time, have the same
/// number, or disagree on the world size.
std::unique_ptr<Rendezvous> rendezvous(const InitOptions& options);

}  // namespace ferrite::parallel
