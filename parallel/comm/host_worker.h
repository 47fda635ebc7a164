// HostWorker: the thread in which a group that communicates from the host runs its operations, one
// after the other in the order of their calls.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/call.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/work.h"

namespace ferrite::parallel::comm {

/// One operation of a worker's. `out` and `in` are memory of the host that holds what the tensors
/// hold (theirs, or page-locked memory that stands for that of a CUDA device); null where the call
/// has no such tensor, or an empty one.
struct HostCall {
  const Call& call;
  std::uint64_t sequence;  ///< 1, 2, ... of the group
  void* out;
  const void* in;
  links::Interrupt interrupt;  ///< to be checked in every wait
};

/// Whether tensors of CUDA devices are brought to the host and back around an operation, or reach
/// run() as they are (HostCall::out and in are then null for them).
enum class Staging : std::uint8_t { host, none };
/// Whether a thread that waits for an operation nobody has begun yet may run it itself, which saves
/// the way to the worker's thread. Not for operations that may ignore their Interrupt.
enum class Waiters : std::uint8_t { help, wait };

/// What a worker's owner does. All but run() may be called from any thread.
class HostOperations {
 public:
  virtual ~HostOperations() = default;
  /// Runs an operation to its end. What it throws fails the operation.
  virtual void run(const HostCall& call) = 0;
  /// Around run(), staging included; ended() only where the operation did not fail.
  virtual void begun(const Call&, std::uint64_t /*sequence*/) {}
  virtual void ended(const Call&, std::uint64_t /*sequence*/) {}
  /// The operation has failed for `error`: aborts the group, and returns what wait() is to say.
  virtual std::string failed(const Call& call, std::uint64_t sequence,
                             const std::string& error) = 0;
};

class HostWorker {
 public:
  struct Options {
    std::chrono::milliseconds timeout{};
    Staging staging = Staging::host;
    Waiters waiters = Waiters::wait;
  };
  HostWorker(HostOperations& owner, const Options& options);
  /// stop(), which owners call in their own destructors: `owner` must be whole.
  ~HostWorker();
  HostWorker(const HostWorker&) = delete;
  HostWorker& operator=(const HostWorker&) = delete;

  /// Queues an operation behind what the current streams of its tensors' devices hold. Its deadline
  /// begins when it is its turn.
  Work submit(Call call, std::uint64_t sequence);
  /// Has run() be interrupted, and fails what is queued: from any thread.
  void abort(const std::string& reason);
  /// Lets what is queued end, and joins the thread.
  void stop();

  class Core;

 private:
  const std::shared_ptr<Core> core_;
};

/// While it lives, operations that this thread submits are about to be waited for, so that the
/// worker need not be woken for them where waiters help.
class AboutToWait {
 public:
  AboutToWait();
  ~AboutToWait();
  AboutToWait(const AboutToWait&) = delete;
  AboutToWait& operator=(const AboutToWait&) = delete;
  static bool here();

 private:
  const bool previous_;
};

}  // namespace ferrite::parallel::comm
