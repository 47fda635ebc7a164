#include "ferrite/tests/emulator/src/stream.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "ferrite/emulator/emulator.h"
#include "ferrite/tests/emulator/src/graph.h"
#include "ferrite/tests/emulator/src/host_worker.h"
#include "ferrite/tests/emulator/src/ledger.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/report.h"

namespace emulator {

namespace {

struct Streams {
  std::unordered_map<CUstream_st*, StreamPtr> by_handle;
  std::vector<StreamPtr> working;  // destroyed, but not done
  StreamPtr defaults[kMaxDevices];
  std::unordered_map<CUevent_st*, std::shared_ptr<CUevent_st>> events;
  unsigned long long next_id = 1;
};
/// Never destroyed: statics of other code use it later.
Streams& streams() {
  static Streams& the = *new Streams;
  return the;
}

StreamPtr make_stream(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<CUstream_st>();
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = streams().next_id++;
  return stream;
}

StreamPtr default_stream(int device) {
  StreamPtr& stream = streams().defaults[device];
  if (!stream) {
    stream = make_stream(device, cudaStreamDefault, 0);
    stream->is_default = true;
  }
  return stream;
}

StreamPtr per_thread_stream(int device) {
  static thread_local StreamPtr own[kMaxDevices];
  if (!own[device]) own[device] = create_stream(device, cudaStreamDefault, 0);
  return own[device];
}

template <class F>
void for_each_stream(int device, F f) {
  Streams& s = streams();
  for (const auto& [handle, stream] : s.by_handle)
    if (stream->device == device) f(stream);
  for (const StreamPtr& stream : s.working)
    if (stream->device == device) f(stream);
  if (s.defaults[device]) f(s.defaults[device]);
}

// The combined clock of all host threads, because their synchronization with each other is not
// visible.
ClockPtr& host_clock() {
  static ClockPtr& the = *new ClockPtr(std::make_shared<Clock>());
  return the;
}

void join(ClockPtr& clock, const Ticket& ticket) {
  Clock other = ticket.clock ? *ticket.clock : Clock();
  if (ticket.stream) other.reach(ticket.stream->id, ticket.number);
  if (clock && clock->covers(other)) return;
  if (clock) other.join(*clock);
  clock = std::make_shared<const Clock>(std::move(other));
}

/// Assigns a number and a clock to the stream's next operation.
WorkId next_id(CUstream_st& stream) {
  const std::uint64_t number = ++stream.issued;
  if (!kRaces) return {};
  join(stream.clock, {nullptr, 0, host_clock()});
  return {stream.id, number, stream.clock, {}};
}

/// `before`: stream.done when the task began; a different value now means that everything was
/// discarded in the meantime.
void finish_task(CUstream_st& stream, std::uint64_t before) {
  if (stream.done == before) ++stream.done;
  stream.busy = false;
  if (stream.idle()) std::erase_if(streams().working, [](const StreamPtr& s) { return s->idle(); });
  work_done.notify_all();
}

/// For code that runs streams: wait; leave tasks that need a wait or a host function; or, for the
/// thread of host functions, run these.
enum class Patience { wait, leave, worker };

bool run_until(const Ticket& ticket, Patience patience, HeldLock& lock);

/// Runs the stream's next task, or returns false if it would have to wait and `patience` does not
/// allow it.
bool run_one(const StreamPtr& stream, Patience patience, HeldLock& lock) {
  if (stream->busy) {
    if (stream->runner == std::this_thread::get_id())
      fatal("cudaLaunchHostFunc", 0, "a host function waits for its own stream");
    if (patience != Patience::wait) return false;
    work_done.wait(lock);
    return true;
  }
  stream->busy = true;
  stream->runner = std::this_thread::get_id();
  const std::uint64_t before = stream->done;
  const std::vector<Ticket> after = stream->queue.front().after;
  for (const Ticket& ticket : after)
    if (!run_until(ticket, patience, lock)) {
      stream->busy = false;
      return false;
    }
  if (stream->done != before) {  // discarded while the lock was released
    stream->busy = false;
    return true;
  }
  if (const auto& ready = stream->queue.front().operation->ready; ready && !ready()) {
    stream->busy = false;
    if (patience != Patience::wait) return false;
    work_done.wait(lock);
    return true;
  }
  const bool host = stream->queue.front().operation->kind == Operation::Kind::host;
  if (host && patience == Patience::leave) {
    stream->busy = false;
    host_worker_take(stream);
    return false;
  }
  const Task task = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (host) {
    lock.unlock();
    task.operation->run();
    lock.lock();
  } else if (const Operation& operation = *task.operation; operation.run) {
    race_work_started(task.id, operation.name, operation.file, operation.line);
    const Operation::Kind kind = operation.kind;
    const bool counts = kind == Operation::Kind::kernel || kind == Operation::Kind::copy ||
                        kind == Operation::Kind::set;
    ledger_begin(counts ? operation.name : nullptr);
    operation.run();
  }
  finish_task(*stream, before);
  return true;
}

bool run_until(const Ticket& ticket, Patience patience, HeldLock& lock) {
  while (!ticket.reached())
    if (!run_one(ticket.stream, patience, lock)) return false;
  return true;
}

}  // namespace

StreamPtr resolve(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream(current_device());
  if (handle == cudaStreamPerThread) return per_thread_stream(current_device());
  const auto it = streams().by_handle.find(handle);
  return it == streams().by_handle.end() ? nullptr : it->second;
}

StreamPtr create_stream(int device, unsigned flags, int priority) {
  StreamPtr stream = make_stream(device, flags, priority);
  streams().by_handle[stream.get()] = stream;
  return stream;
}

void destroy_stream(const StreamPtr& stream) {
  if (!stream->idle()) streams().working.push_back(stream);
  streams().by_handle.erase(stream.get());
}

std::shared_ptr<CUevent_st> resolve(cudaEvent_t handle) {
  const auto it = streams().events.find(handle);
  return it == streams().events.end() ? nullptr : it->second;
}

cudaEvent_t create_event(int device, unsigned flags) {
  auto event = std::make_shared<CUevent_st>();
  event->device = device;
  event->flags = flags;
  streams().events[event.get()] = event;
  return event.get();
}

void destroy_event(cudaEvent_t event) { streams().events.erase(event); }

namespace {
/// Calls f for the streams that the rules of the legacy default stream order with `stream`.
template <class F>
void for_each_related(const CUstream_st& stream, F f) {
  if (stream.is_default) {
    for_each_stream(stream.device, [&](const StreamPtr& other) {
      if (!other->is_default && other->blocking()) f(other);
    });
  } else if (stream.blocking()) {
    if (const StreamPtr& other = streams().defaults[stream.device]) f(other);
  }
}
}  // namespace

std::vector<Ticket> implicit_dependencies(const CUstream_st& stream) {
  std::vector<Ticket> after;
  for_each_related(stream, [&](const StreamPtr& other) {
    if (!other->idle()) after.push_back(end_of(other));
  });
  return after;
}

void order_implicitly(CUstream_st& stream) {
  if (kRaces)
    for_each_related(stream, [&](const StreamPtr& other) { order_after(stream, end_of(other)); });
}

bool can_run_now(const CUstream_st& stream) {
  if (current_settings.deferred || !stream.idle() || stream.capture) return false;
  if (stream.is_default) return implicit_dependencies(stream).empty();
  const StreamPtr& other = streams().defaults[stream.device];
  return !stream.blocking() || !other || other->idle();
}

void begin_running_now(CUstream_st& stream, const char* name, const char* file, int line) {
  order_implicitly(stream);
  const WorkId id = next_id(stream);
  stream.busy = true;
  stream.runner = std::this_thread::get_id();
  race_work_started(id, name, file, line);
  ledger_begin(name);
}
void end_running_now(CUstream_st& stream) { finish_task(stream, stream.issued - 1); }

bool Ticket::reached() const { return stream->done >= number; }

Ticket end_of(const StreamPtr& stream) { return {stream, stream->issued, stream->clock}; }

void order_after(CUstream_st& stream, const Ticket& ticket) {
  if (kRaces) join(stream.clock, ticket);
}

cudaError_t issue(const StreamPtr& stream, OperationPtr operation, Ticket* ticket) {
  if (const cudaError_t error = check_use(*stream); error != cudaSuccess) return error;
  if (stream->capture) {
    capture_operation(*stream, std::move(operation));
    if (ticket) *ticket = {stream, 0, nullptr};
    return cudaSuccess;
  }
  const Ticket place = enqueue(stream, std::move(operation));
  if (ticket) *ticket = place;
  return cudaSuccess;
}

Ticket enqueue(const StreamPtr& stream, OperationPtr operation, std::vector<Ticket> after,
               GraphPlace place) {
  const bool for_worker = operation->kind == Operation::Kind::host || operation->ready;
  for (Ticket& ticket : implicit_dependencies(*stream)) after.push_back(std::move(ticket));
  for (const Ticket& ticket : after) order_after(*stream, ticket);
  order_implicitly(*stream);
  WorkId id = next_id(*stream);
  id.graph = std::move(place);
  stream->queue.push_back({std::move(after), std::move(operation), std::move(id)});
  const Ticket ticket = end_of(stream);
  if (!current_settings.deferred) {
    HeldLock lock(runtime_mutex, std::adopt_lock);
    run_until(ticket, Patience::leave, lock);
    lock.release();
  } else if (for_worker) {
    host_worker_take_later(stream);
  }
  return ticket;
}

void host_saw(const Ticket& ticket) {
  if (kRaces) join(host_clock(), ticket);
}

void run_to(const Ticket& ticket, HeldLock& lock) { run_until(ticket, Patience::wait, lock); }
bool run_as_worker(const Ticket& ticket, HeldLock& lock) {
  return run_until(ticket, Patience::worker, lock);
}

void wait_for(const Ticket& ticket, HeldLock& lock) {
  run_to(ticket, lock);
  host_saw(ticket);
}

void wait_for_stream(const StreamPtr& stream, HeldLock& lock) {
  for (const Ticket& ticket : implicit_dependencies(*stream)) wait_for(ticket, lock);
  wait_for(end_of(stream), lock);
}

void wait_for_device(int device, HeldLock& lock) {
  std::vector<Ticket> all;
  for_each_stream(device, [&](const StreamPtr& stream) { all.push_back(end_of(stream)); });
  for (const Ticket& ticket : all) wait_for(ticket, lock);
}

void advance_all(HeldLock& lock) {
  if (current_settings.deferred) return;
  std::vector<StreamPtr> unfinished;
  for (int device = 0; device < kMaxDevices; ++device)
    for_each_stream(device, [&](const StreamPtr& stream) {
      if (!stream->queue.empty()) unfinished.push_back(stream);
    });
  for (const StreamPtr& stream : unfinished) run_until(end_of(stream), Patience::leave, lock);
}

void set_deferred(bool deferred) {
  HeldLock lock(runtime_mutex);
  current_settings.deferred = deferred;
  advance_all(lock);
}

void nudge(const StreamPtr& stream, HeldLock& lock) {
  if (stream->idle() || stream->busy) return;
  run_one(stream, Patience::leave, lock);
}

void discard_work(int device) {
  discard_captures(device);
  for_each_stream(device, [](const StreamPtr& stream) {
    stream->queue.clear();
    stream->done = stream->issued;
  });
  work_done.notify_all();
}

}  // namespace emulator
