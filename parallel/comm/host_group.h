// HostGroup: base class of groups that communicate from the host. It provides a worker thread for
// the collectives, another for send and recv over links, staging of CUDA tensors, deadlines, and
// reports of every operation to the Monitor. A backend implements run().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/host_worker.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

namespace comm {
class PeerTransfers;
}

class HostGroup : public ProcessGroup, private comm::HostOperations {
 public:
  ~HostGroup() override;

 protected:
  struct Options {
    comm::Staging staging = comm::Staging::host;
    comm::Waiters waiters = comm::Waiters::wait;
  };
  /// `links` carry only send and recv; null if size is 1.
  HostGroup(std::string backend, const GroupContext& context,
            std::unique_ptr<links::LinkMesh> links, const Options& options);

  /// Makes the monitor, if there is one, abort the group when a rank is lost. Call it last in
  /// constructors of derived classes: the abort may come at once.
  void start_watching();

  /// Runs a collective (never send or recv) to its end, in one thread at a time. Arguments are
  /// checked; reduce and similar in-place operations have this rank's values in `out`. Throws
  /// DistributedError when the call's Interrupt triggers or the connection fails.
  void run(const comm::HostCall& call) override = 0;
  /// Called when the group is aborted: must end those waits of run() that do not check their
  /// Interrupt. Called once, from any thread, possibly while run() runs.
  virtual void cancel() {}
  /// Determines the rank to blame, aborts the group and tells the monitor. The tensors of the call
  /// are kept until it returns.
  std::string failed(const comm::Call& call, std::uint64_t sequence,
                     const std::string& error) override;
  /// Call it first in destructors of derived classes: waits for operations, joins threads.
  void stop();

  const GroupContext& context() const { return context_; }

  Work submit(comm::Call call) override;
  void do_abort(const std::string& reason) override;
  void do_leave() override { stop(); }

 private:
  void begun(const comm::Call& call, std::uint64_t sequence) override;
  void ended(const comm::Call& call, std::uint64_t sequence) override;
  const GroupContext context_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<bool> others_know_{false};  // why the group is aborted
  std::unique_ptr<comm::HostWorker> worker_;
  std::unique_ptr<comm::PeerTransfers> transfers_;
  bool stopped_ = false;
};

/// Compares this rank's call with those of its neighbours in the ring over `links`, which must be
/// idle: DistributedError naming the previous rank and both calls if they differ. For run(), before
/// a collective whose backend would interpret a mismatch as data. Costs one small message to each
/// neighbour.
void check_same_call(links::LinkMesh& links, const GroupContext& context,
                     const comm::HostCall& call);

}  // namespace ferrite::parallel
