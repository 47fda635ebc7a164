#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>

#include "ferrite/core/background_waits.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/core/profiler/records.h"
#include "ferrite/core/profiler/thread_state.h"

namespace ferrite::profiler::detail {

namespace {

using ferrite::detail::Mark;
using ferrite::detail::Timing;

/// The session that is recording, or null.
struct Current {
  std::mutex mutex;
  std::shared_ptr<Session> session;
  std::uint64_t last_id = 0;
};
Current& current() {
  static Current& instance = *new Current;  // never destroyed: threads may outlive statics
  return instance;
}

std::string name_of_thread() {
  if (getpid() == static_cast<pid_t>(syscall(SYS_gettid))) return "main thread";
  std::array<char, 16> name{};
  if (pthread_getname_np(pthread_self(), name.data(), name.size()) != 0) return "thread";
  return name.data();
}

thread_local constinit bool thread_ends = false;

}  // namespace

ThreadState* make_state() {
  if (thread_ends) return nullptr;
  struct Owner {
    ThreadState state;
    ~Owner() {
      this_thread = nullptr;
      thread_ends = true;
    }
  };
  thread_local Owner owner;
  return this_thread = &owner.state;
}

Log* ThreadState::join_session() {
  std::lock_guard lock(current().mutex);
  session = current().session;
  last_stream = nullptr;
  last_range = 0;
  if (!session) {
    log = nullptr;
    return nullptr;
  }
  std::lock_guard session_lock(session->mutex);
  log = std::make_shared<Log>(static_cast<std::uint32_t>(session->logs.size()));
  log->thread = syscall(SYS_gettid);
  log->name = name_of_thread();
  session->logs.push_back(log);
  return log.get();
}

// ---- Streams

namespace {

/// Makes the session wait for `stream` when it ends.
void remember(ThreadState& thread, const Stream& stream) {
  if (thread.last_stream == stream.impl()) return;
  thread.last_stream = stream.impl();
  std::lock_guard lock(thread.session->mutex);
  auto& streams = thread.session->streams;
  if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
}

}  // namespace

Submitted submitting(const Stream& stream) {
  if ((flags.hooks.load(std::memory_order_relaxed) & kDevices) == 0) return {};
  ThreadState* thread = state();
  Log* log = thread ? thread->current_log() : nullptr;
  if (!log) return {};
  remember(*thread, stream);
  return {.name = thread->frames.empty() ? "work" : thread->frames.back().name,
          .session = thread->session->id,
          .asked = ticks(),
          .log = log->index,
          .range = thread->innermost()};
}

void record_work(const Submitted& work, const Stream& stream, std::uint64_t begin,
                 std::uint64_t end) noexcept {
  ThreadState* thread = state();
  try {
    Log* log = thread ? thread->current_log() : nullptr;
    if (!log || thread->session->id != work.session) return;
    WorkRecord* record = log->work.room(thread->session->budget);
    if (!record) return count(log->dropped);
    *record = {.name = work.name,
               .begin = begin,
               .end = end,
               .asked = work.asked,
               .log = work.log,
               .range = work.range,
               .stream = stream.id(),
               .device = static_cast<std::int8_t>(stream.device().index())};
    log->work.publish();
  } catch (const std::bad_alloc&) {
    if (thread->log) count(thread->log->dropped);
  }
}

std::shared_ptr<Mark> begin_device_work(const Stream& stream) {
  if ((flags.hooks.load(std::memory_order_relaxed) & kDevices) == 0) return nullptr;
  ThreadState* thread = state();
  if (!thread || !thread->current_log()) return nullptr;
  if (ferrite::detail::cuda::is_capturing(stream)) return nullptr;
  remember(*thread, stream);
  return stream.impl()->record(Timing::wanted);
}

void end_device_work(const Stream& stream, const char* name, std::shared_ptr<Mark> begin) noexcept {
  ThreadState* thread = state();
  if (!begin || !thread) return;
  try {
    Log* log = thread->current_log();
    if (!log) return;
    std::shared_ptr<Mark> end = stream.impl()->record(Timing::wanted);
    DeviceRecord* record = log->device.room(thread->session->budget);
    if (!record) return count(log->dropped);
    record->name = name;
    record->begin = std::move(begin);
    record->end = std::move(end);
    record->asked = ticks();
    record->range = thread->innermost();
    record->stream = stream.id();
    record->device = static_cast<std::int8_t>(stream.device().index());
    log->device.publish();
  } catch (const std::exception&) {  // no memory, or the device is lost
    if (thread->log) count(thread->log->dropped);
  }
}

// ---- Sessions

std::shared_ptr<Session> start_session(std::uint32_t wanted, std::int64_t limit) {
  Current& now = current();
  std::lock_guard lock(now.mutex);
  FERRITE_CHECK(!now.session, ValueError, "profiler",
                "a profile runs already; there can be one at a time in a process");
  auto session = std::make_shared<Session>(limit);
  session->id = ++now.last_id;
  session->hooks = wanted;
  session->wall_clock = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  session->begin = Moment::now();
  now.session = session;
  current_session.store(session->id, std::memory_order_release);
  flags.hooks.fetch_or(wanted, std::memory_order_relaxed);
  return session;
}

namespace {

/// Gives the stream's device an anchor: a mark whose time on the host's clock is known. Of several
/// attempts, the shortest is used.
void anchor(Session& session, const Stream& stream) {
  if (!stream.device().is_cuda() || std::ranges::any_of(session.anchors, [&](const Anchor& a) {
        return a.device == stream.device();
      }))
    return;
  try {
    const ferrite::cuda::BackgroundWaits waits;
    Anchor best{stream.device(), nullptr};
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t before = ticks();
      std::shared_ptr<Mark> mark = stream.impl()->record(Timing::wanted);
      mark->wait();
      const std::uint64_t after = ticks();
      if (after - before >= least) continue;
      least = after - before;
      best.mark = std::move(mark);
      best.ticks = before + least / 2;
    }
    session.anchors.push_back(std::move(best));
  } catch (const CudaError&) {  // the device is lost: the times of its work stay unknown
  }
}

}  // namespace

void stop_session(Session& session) {
  flags.hooks.fetch_and(std::uint32_t{kNvtx | kTrace}, std::memory_order_relaxed);
  std::vector<Stream> streams;
  {
    std::lock_guard lock(session.mutex);
    streams = session.streams;
  }
  if (!ferrite::detail::on_worker_thread()) {
    const ferrite::cuda::BackgroundWaits waits;
    for (const Stream& stream : streams) {
      try {
        if (!ferrite::detail::cuda::is_capturing(stream))
          stream.impl()->record(Timing::none)->wait();
      } catch (const CudaError&) {  // the device is lost: the times of its work stay unknown
      }
    }
  }
  for (const Stream& stream : streams) anchor(session, stream);
  session.end = Moment::now();
  Current& now = current();
  current_session.store(0, std::memory_order_release);
  {
    std::lock_guard lock(now.mutex);
    now.session = nullptr;
  }
  // Other threads may be about to write; they release their logs when they record again.
  if (this_thread) {
    this_thread->session = nullptr;
    this_thread->log = nullptr;
  }
}

void set_nvtx(bool on) {
  static std::mutex mutex;
  static int users = 0;
  const std::lock_guard lock(mutex);
  users += on ? 1 : -1;
  if (users > 0)
    flags.hooks.fetch_or(kNvtx, std::memory_order_relaxed);
  else
    flags.hooks.fetch_and(~static_cast<std::uint32_t>(kNvtx), std::memory_order_relaxed);
}

}  // namespace ferrite::profiler::detail
