// A non-blocking NCCL communicator of one rank, for one device.
//
// It is created with blocking = 0: NCCL's calls then return at once, even if they must connect to
// ranks that never arrive, and are polled until they are done or the deadline passes.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "ferrite/parallel/comm/nccl/failure.h"
#include "ferrite/parallel/comm/nccl/library.h"

namespace ferrite::parallel::nccl {

using Deadline = std::chrono::steady_clock::time_point;

/// Calls are made one at a time; all members are thread-safe meanwhile.
class Communicator {
 public:
  /// `failure`: ends waits early.
  Communicator(const Library& library, const Failure& failure)
      : library_(library), failure_(failure) {}
  /// Aborts the communicator unless it was finished or aborted.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Creates it, on the current device, once all `size` ranks have arrived. DistributedError.
  void connect(const ncclUniqueId& id, int rank, int size, Deadline deadline);

  /// Makes the calls of `f`, several as a group, and returns when their work is on the stream.
  /// DistributedError if they fail, the deadline passes or the communicator was aborted.
  void call(std::string_view op, Deadline deadline,
            const std::function<ncclResult_t(const Library&, ncclComm_t)>& f);

  /// The error since the last query; "" if none, or if a call is in progress.
  std::string async_error();

  /// Releases it when all ranks are done with it. Returns whether they were before the deadline,
  /// without any error.
  bool finish(Deadline deadline);
  /// Ends the work running on the device, and releases the communicator. Waits neither for other
  /// ranks nor for graphs.
  void abort();

  /// Call it once an operation is part of a graph: NCCL releases the communicator after the graph.
  void set_captured() { captured_ = true; }

 private:
  ncclResult_t poll();
  void release(const std::function<void()>& f);

  const Library& library_;
  const Failure& failure_;
  // Even a query changes state: it completes what NCCL has begun.
  std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  std::atomic<bool> captured_{false};
};

}  // namespace ferrite::parallel::nccl
