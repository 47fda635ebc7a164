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

/// One operation of a worker. `out` and `in` are host memory with the tensors' contents (the
/// tensors' own memory, or page-locked copies for CUDA tensors); null if the call has no such
/// tensor, or an empty one.
struct HostCall {
  const Call& call;
  std::uint64_t sequence;  ///< 1, 2, ... in the group
  void* out;
  const void* in;
  links::Interrupt interrupt;  ///< must be checked in every wait
};

/// Whether CUDA tensors are copied to the host and back around an operation, or passed to run() as
/// they are (HostCall::out and in are then null for them).
enum class Staging : std::uint8_t { host, none };
/// Whether a thread that waits for an operation that has not begun may run it itself, which avoids
/// a switch to the worker thread. Not for operations that may ignore their Interrupt.
enum class Waiters : std::uint8_t { help, wait };

/// The interface of a worker's owner. All members but run() may be called from any thread.
class HostOperations {
 public:
  virtual ~HostOperations() = default;
  /// Runs an operation to its end. An exception fails the operation.
  virtual void run(const HostCall& call) = 0;
  /// Called around run(), including staging; ended() only if the operation succeeded.
  virtual void begun(const Call&, std::uint64_t /*sequence*/) {}
  virtual void ended(const Call&, std::uint64_t /*sequence*/) {}
  /// Called when the operation has failed with `error`: aborts the group, and returns the message
  /// of wait().
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
  /// Calls stop(), which owners must call in their own destructors while they are complete.
  ~HostWorker();
  HostWorker(const HostWorker&) = delete;
  HostWorker& operator=(const HostWorker&) = delete;

  /// Queues an operation behind the work on the current streams of its tensors' devices. Its
  /// deadline starts when its turn comes.
  Work submit(Call call, std::uint64_t sequence);
  /// Interrupts run(), and fails queued operations; from any thread.
  void abort(const std::string& reason);
  /// Waits for queued operations, and joins the thread.
  void stop();

  class Core;

 private:
  const std::shared_ptr<Core> core_;
};

/// While it lives, this thread waits for its operations right after submitting them, so the worker
/// need not be woken if waiters help.
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
