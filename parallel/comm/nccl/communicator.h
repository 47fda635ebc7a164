// An NCCL communicator that holds nobody up: one rank's, for one device.
//
// It is made with blocking = 0: NCCL's calls then return at once, also where they have connections
// to make to ranks that never come, and are asked until they are done or their time is over.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "ferrite/parallel/comm/nccl/failure.h"
#include "ferrite/parallel/comm/nccl/library.h"

namespace ferrite::parallel::nccl {

using Deadline = std::chrono::steady_clock::time_point;

/// Calls are made one at a time; all members may be called from any thread meanwhile.
class Communicator {
 public:
  /// `failure`: what ends waiting early.
  Communicator(const Library& library, const Failure& failure)
      : library_(library), failure_(failure) {}
  /// Of one that is neither finished nor aborted: aborts it.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Makes it, on the current device, once all `size` ranks have come. DistributedError.
  void connect(const ncclUniqueId& id, int rank, int size, Deadline deadline);

  /// Makes the calls of `f`, several as a group, and returns when their work is on the stream.
  /// DistributedError where they fail, the time is over or the communicator was aborted.
  void call(std::string_view op, Deadline deadline,
            const std::function<ncclResult_t(const Library&, ncclComm_t)>& f);

  /// What has gone wrong since it was last asked; "" if nothing, or where a call is just being
  /// made.
  std::string async_error();

  /// Lets go of it when all ranks are done with it. Whether they were before the deadline, and
  /// nothing had gone wrong.
  bool finish(Deadline deadline);
  /// Ends what runs on the device, and lets go of it. Waits for no other rank.
  void abort();

 private:
  ncclResult_t poll();

  const Library& library_;
  const Failure& failure_;
  // To be asked is a change too: it ends what NCCL has begun.
  std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace ferrite::parallel::nccl
