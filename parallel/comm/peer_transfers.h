// PeerTransfers: send and recv over links. Any number of them may be pending, so that ranks may
// exchange in whatever order they call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/parallel/comm/host_worker.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/work.h"

namespace ferrite::parallel::comm {

class PeerTransfers {
 public:
  /// Only failed() of `owner` is called; its number counts the transfers of a pair of ranks in one
  /// direction. `names`: the ranks' names in errors.
  PeerTransfers(std::unique_ptr<links::LinkMesh> links, int rank, std::vector<int> names,
                std::chrono::milliseconds timeout, HostOperations& owner);
  ~PeerTransfers();
  PeerTransfers(const PeerTransfers&) = delete;
  PeerTransfers& operator=(const PeerTransfers&) = delete;

  /// `call` is send or recv.
  Work submit(Call call);
  void abort(const std::string& reason);
  /// Waits for pending transfers, and joins the thread.
  void stop();

 private:
  class Transfer;
  struct Shared;
  /// Per peer and direction: only the first is active.
  using Queue = std::deque<std::shared_ptr<Transfer>>;

  void serve();
  void wake();
  void sleep(std::uint64_t seen);
  std::vector<links::Wait> interests(std::chrono::steady_clock::time_point& until);
  bool advance_all();
  bool advance(Transfer& transfer, int peer);
  bool advance_send(Transfer& transfer, links::Link& link);
  bool advance_recv(Transfer& transfer, links::Link& link);
  bool advance_first(std::vector<Queue>& queues, int peer);
  void fail_all(const std::string& reason);

  int name_of(int rank) const { return names_[static_cast<std::size_t>(rank)]; }

  const int rank_;
  const std::vector<int> names_;
  const std::chrono::milliseconds timeout_;
  HostOperations& owner_;
  const std::unique_ptr<links::LinkMesh> links_;
  const std::shared_ptr<Shared> shared_;
  const int wake_fd_;                 // an eventfd
  std::vector<Queue> sends_, recvs_;  // used by the thread only
  std::thread thread_;                // protected by the mutex of shared_
};

}  // namespace ferrite::parallel::comm
