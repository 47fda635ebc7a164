// Streams: queues of operations, run by a thread that waits for them, or at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ferrite/tests/emulator/src/clock.h"
#include "ferrite/tests/emulator/src/runtime.h"

struct CUstream_st;
struct CUgraphNode_st;

namespace emulator {

class Capture;

/// A position in a stream: reached when `number` of its operations are done.
struct Ticket {
  std::shared_ptr<CUstream_st> stream;
  std::uint64_t number = 0;
  ClockPtr clock;  // what else has completed by then

  bool reached() const;
};

/// An operation of a stream; shared with the graphs that replay it.
struct Operation {
  enum class Kind { kernel, copy, set, host, event, empty, memory };
  Kind kind = Kind::empty;
  std::function<void()> run;  // with the lock held, except for host functions
  // Set if it waits for other streams in a way that these do not know: queried, with the lock held,
  // whenever all before it is done. The code that makes it true calls host_worker_advance().
  std::function<bool()> ready;
  // For reports; a kernel has a source location.
  const char* name = "";
  const char* file = nullptr;
  int line = 0;
};
using OperationPtr = std::shared_ptr<const Operation>;

struct Task {
  std::vector<Ticket> after;  // tickets of other streams
  OperationPtr operation;
  WorkId id;
};

}  // namespace emulator

struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  bool is_default = false;

  std::uint64_t issued = 0, done = 0;
  std::deque<emulator::Task> queue;
  bool busy = false;         // a thread is running its first task
  std::thread::id runner;    // who
  emulator::ClockPtr clock;  // what precedes its next operation

  std::shared_ptr<emulator::Capture> capture;
  std::vector<CUgraphNode_st*> capture_tail;  // what the next captured operation depends on

  bool idle() const { return issued == done; }
  bool blocking() const { return !(flags & cudaStreamNonBlocking); }
};

/// An event: the position in a stream where it was last recorded.
struct CUevent_st {
  struct Record {
    emulator::Ticket ticket;
    std::chrono::steady_clock::time_point time;
  };
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<Record> record;              // null until then
  std::shared_ptr<emulator::Capture> capture;  // the capture it was recorded in, if any,
  std::vector<CUgraphNode_st*> capture_tail;   // and the preceding nodes
};

namespace emulator {

using HeldLock = std::unique_lock<std::mutex>;
using StreamPtr = std::shared_ptr<CUstream_st>;

/// The stream of a handle (0 and the legacy handle: the current device's default stream; the
/// per-thread handle: that thread's), or null for an invalid handle.
StreamPtr resolve(cudaStream_t handle);
StreamPtr create_stream(int device, unsigned flags, int priority);
void destroy_stream(const StreamPtr& stream);

/// The event of a handle, or null.
std::shared_ptr<CUevent_st> resolve(cudaEvent_t handle);
cudaEvent_t create_event(int device, unsigned flags);
void destroy_event(cudaEvent_t event);

/// Puts an operation on a stream, to be run or captured. The ticket is the position where a run one
/// is done.
cudaError_t issue(const StreamPtr& stream, OperationPtr operation, Ticket* ticket = nullptr);

/// Adds an operation to a stream that is not capturing and, unless streams are deferred, runs
/// everything that can run. `after` are positions in other streams to be reached first.
Ticket enqueue(const StreamPtr& stream, OperationPtr operation, std::vector<Ticket> after = {},
               GraphPlace place = {});

/// The position after everything put on the stream.
Ticket end_of(const StreamPtr& stream);

/// Orders later work on the stream after the ticket, which has been reached.
void order_after(CUstream_st& stream, const Ticket& ticket);

/// The positions that an operation on `stream` waits for by the rules of the legacy default stream.
std::vector<Ticket> implicit_dependencies(const CUstream_st& stream);
/// The same for the race detector, which also needs completed ones.
void order_implicitly(CUstream_st& stream);

/// Whether an operation on `stream` could run now, without being queued; if so, call it between
/// these two.
bool can_run_now(const CUstream_st& stream);
void begin_running_now(CUstream_st& stream, const char* name, const char* file, int line);
void end_running_now(CUstream_st& stream);

/// For host waits: runs the stream up to a position, and everything that this requires.
void wait_for(const Ticket& ticket, HeldLock& lock);
void wait_for_stream(const StreamPtr& stream, HeldLock& lock);
void wait_for_device(int device, HeldLock& lock);

/// The same for the emulator's own purposes: does not count as a wait of the host.
void run_to(const Ticket& ticket, HeldLock& lock);

/// For the host worker: runs the stream up to a position; returns false if it would have to wait.
bool run_as_worker(const Ticket& ticket, HeldLock& lock);

/// Runs everything that can run without waiting, unless streams are deferred.
void advance_all(HeldLock& lock);

/// Records that the host has seen the ticket reached.
void host_saw(const Ticket& ticket);

/// For polls: runs one task of a deferred stream.
void nudge(const StreamPtr& stream, HeldLock& lock);

/// Discards everything queued on a device.
void discard_work(int device);

}  // namespace emulator
