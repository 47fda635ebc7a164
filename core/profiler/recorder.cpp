#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <unordered_map>
#include <unordered_set>

#include "core/background_waits.h"
#include "core/cuda.h"
#include "core/cuda_backend.h"
#include "core/error.h"
#include "core/profiler/device_work.h"
#include "core/profiler/recording.h"
#include "core/profiler/records.h"
#include "core/profiler/type_name.h"
#include "core/tensor.h"

namespace ferrite::profiler::detail {

namespace {

using ferrite::detail::Mark;
using ferrite::detail::Timing;

/// The session that records; null: none does. `id` is read before the lock is taken.
struct Current {
  std::mutex mutex;
  std::shared_ptr<Session> session;
  std::atomic<std::uint64_t> id{0};
  std::uint64_t last_id = 0;
};
Current& current() {
  static Current& instance = *new Current;  // never destroyed: threads may outlive statics
  return instance;
}

}  // namespace

const char* intern(std::string_view text) {
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Texts {
    std::mutex mutex;
    std::unordered_set<std::string, Hash, std::equal_to<>> all;
  };
  static Texts& texts = *new Texts;
  std::lock_guard lock(texts.mutex);
  const auto found = texts.all.find(text);
  return (found != texts.all.end() ? *found : *texts.all.emplace(text).first).c_str();
}

/// What a thread knows of itself.
struct ThreadState {
  struct Frame {
    const char* name;
    std::uint64_t session, begin, children, sequence;
    const void* module;
    std::int64_t host_bytes, device_bytes;
    std::uint32_t id, shapes;
    Kind kind;
    bool nvtx, recorded;
  };

  std::shared_ptr<Session> session;  // the one that `log` is of
  std::shared_ptr<Log> log;
  std::vector<Frame> frames;
  std::uint32_t last_range = 0;
  const ferrite::detail::StreamImpl* last_stream = nullptr;
  std::unordered_map<std::string_view, const char*> names;
  std::unordered_map<const std::type_info*, const char*> types;

  /// The log of the session that records now; null where there is none.
  Log* current_log() {
    const std::uint64_t id = current().id.load(std::memory_order_acquire);
    if (id == 0) return nullptr;
    if (session && session->id == id) [[likely]]
      return log.get();
    return join_session();
  }

  /// The id of the innermost range of this session; 0: none.
  std::uint32_t innermost() const {
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
      if (frame->recorded && session && frame->session == session->id) return frame->id;
    return 0;
  }

 private:
  Log* join_session();
};

namespace {

std::string name_of_thread() {
  if (getpid() == static_cast<pid_t>(syscall(SYS_gettid))) return "main thread";
  std::array<char, 16> name{};
  if (pthread_getname_np(pthread_self(), name.data(), name.size()) != 0) return "thread";
  return name.data();
}

// A thread that ends lets go of its state, and records nothing after that.
thread_local constinit ThreadState* this_thread = nullptr;
thread_local constinit bool thread_ends = false;

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

ThreadState* state() { return this_thread ? this_thread : make_state(); }

}  // namespace

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

// ---- Ranges

namespace {

/// Opens a range; null where none is wanted.
ThreadState* open(Kind kind, const char* name) {
  ThreadState* thread = state();
  if (!thread) return nullptr;
  const std::uint32_t wanted = flags.hooks.load(std::memory_order_relaxed);
  const std::uint32_t needed = kind == Kind::module ? kModules : kRanges;
  Log* log = (wanted & needed) != 0 ? thread->current_log() : nullptr;
  const bool nvtx = (wanted & kNvtx) != 0 && kind != Kind::kernel;
  if (!log && !nvtx) return nullptr;
  ThreadState::Frame frame{};
  frame.name = name;
  frame.kind = kind;
  frame.nvtx = nvtx;
  if (log) {
    frame.recorded = true;
    frame.session = thread->session->id;
    frame.id = ++thread->last_range;
    count(log->opened);
  }
  thread->frames.push_back(frame);
  if (nvtx) ferrite::cuda::detail::push_range(display_name(name, kind).c_str());
  return thread;
}

/// The clock starts last, so that a range does not time its own beginning.
ThreadState* start(ThreadState* thread) {
  if (thread) thread->frames.back().begin = ticks();
  return thread;
}

void add(ShapeRecord& record, const Tensor* tensor, std::size_t& dims) {
  if (record.more) return;
  const std::size_t slot = record.tensors;
  const bool defined = tensor->defined();
  const int ndim = defined ? tensor->dim() : -1;
  record.more = slot == ShapeRecord::kTensors ||
                (ndim > 0 && dims + static_cast<std::size_t>(ndim) > ShapeRecord::kDims);
  if (record.more) return;
  record.ndim[slot] = static_cast<std::int8_t>(ndim);
  if (defined) record.dtype[slot] = tensor->dtype();
  for (int d = 0; d < ndim; ++d) record.dims[dims++] = tensor->shape()[d];
  ++record.tensors;
}

/// Notes the inputs of the range that was opened.
template <class Inputs, class Address>
void note_shapes(ThreadState* thread, const Inputs& inputs, const Address& address) {
  ThreadState::Frame& frame = thread->frames.back();
  if (!frame.recorded || (thread->session->hooks & kShapes) == 0) return;
  Log& log = *thread->log;
  ShapeRecord* record = log.shapes.room(thread->session->budget);
  if (!record) return count(log.dropped);
  record->tensors = 0;
  record->more = false;
  std::size_t dims = 0;
  for (const auto& input : inputs) add(*record, address(input), dims);
  log.shapes.publish();
  frame.shapes = log.shapes.size();
}

}  // namespace

ThreadState* begin(Kind kind, const char* name) { return start(open(kind, name)); }

ThreadState* begin_user(std::string_view name) {
  ThreadState* thread = state();
  if (!thread) return nullptr;
  auto known = thread->names.find(name);
  if (known == thread->names.end()) {
    const char* text = intern(name);
    known = thread->names.emplace(text, text).first;
  }
  return begin(Kind::user, known->second);
}

ThreadState* begin_op(const char* name, std::initializer_list<const Tensor*> inputs) {
  ThreadState* thread = open(Kind::op, name);
  if (thread) note_shapes(thread, inputs, [](const Tensor* t) { return t; });
  return start(thread);
}

ThreadState* begin_op(const char* name, std::span<const Tensor> inputs) {
  ThreadState* thread = open(Kind::op, name);
  if (thread) note_shapes(thread, inputs, [](const Tensor& t) { return &t; });
  return start(thread);
}

ThreadState* begin_node(const char* name, std::uint64_t sequence) {
  ThreadState* thread = open(Kind::backward, name);
  if (thread) thread->frames.back().sequence = sequence + 1;
  return start(thread);
}

ThreadState* begin_kernel(const Stream& stream, const char* name) {
  ThreadState* thread = open(Kind::kernel, name);
  // What is queued for a worker is recorded by that, and here only lends its name.
  if (thread && !stream.impl()->runs_inline) {
    thread->frames.back().recorded = false;
    count(thread->log->closed);
  }
  return start(thread);
}

ThreadState* begin_module(const std::type_info& type, const void* module) {
  if ((flags.hooks.load(std::memory_order_relaxed) & (kModules | kNvtx)) == 0) return nullptr;
  ThreadState* thread = state();
  if (!thread) return nullptr;
  const char*& name = thread->types[&type];
  if (!name) name = intern(type_name(type));
  if (!open(Kind::module, name)) return nullptr;
  thread->frames.back().module = module;
  return start(thread);
}

void end(ThreadState* thread) noexcept {
  const std::uint64_t now = ticks();
  const ThreadState::Frame frame = thread->frames.back();
  thread->frames.pop_back();
  if (frame.nvtx) ferrite::cuda::detail::pop_range();
  if (!frame.recorded || !thread->session || thread->session->id != frame.session) return;
  ThreadState::Frame* parent = nullptr;
  if (!thread->frames.empty() && thread->frames.back().recorded &&
      thread->frames.back().session == frame.session)
    parent = &thread->frames.back();
  if (parent) parent->children += now - frame.begin;
  Log& log = *thread->log;
  count(log.closed);
  RangeRecord* record = nullptr;
  try {
    record = log.ranges.room(thread->session->budget);
  } catch (const std::bad_alloc&) {
  }
  if (!record) return count(log.dropped);
  *record = {.name = frame.name,
             .begin = frame.begin,
             .end = now,
             .children = frame.children,
             .sequence = frame.sequence,
             .module = frame.module,
             .host_bytes = frame.host_bytes,
             .device_bytes = frame.device_bytes,
             .id = frame.id,
             .parent = parent ? parent->id : 0,
             .shapes = frame.shapes,
             .kind = frame.kind};
  log.ranges.publish();
}

void note_node(std::uint64_t sequence) {
  ThreadState* thread = this_thread;
  if (!thread || thread->frames.empty()) return;
  ThreadState::Frame& frame = thread->frames.back();
  if (frame.kind != Kind::backward) frame.sequence = sequence + 1;
}

// ---- Memory

void note_memory(const Device& device, std::int64_t bytes, std::size_t allocated,
                 std::size_t reserved) noexcept {
  if ((flags.hooks.load(std::memory_order_relaxed) & kMemory) == 0) return;
  ThreadState* thread = state();
  Log* log = thread ? thread->current_log() : nullptr;
  if (!log) return;
  const std::uint64_t now = ticks();
  for (auto frame = thread->frames.rbegin(); frame != thread->frames.rend(); ++frame) {
    if (!frame->recorded) continue;
    if (frame->session == thread->session->id)
      (device.is_host() ? frame->host_bytes : frame->device_bytes) += bytes;
    break;
  }
  MemoryRecord* record = nullptr;
  try {
    record = log->memory.room(thread->session->budget);
  } catch (const std::bad_alloc&) {
  }
  if (!record) return count(log->dropped);
  *record = {.when = now,
             .allocated = allocated,
             .reserved = reserved,
             .bytes = bytes,
             .range = thread->innermost(),
             .device = device.type(),
             .index = static_cast<std::int8_t>(device.index())};
  log->memory.publish();
}

// ---- Streams

namespace {

/// Has the session wait for `stream` when it ends.
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
  now.id.store(session->id, std::memory_order_release);
  flags.hooks.fetch_or(wanted, std::memory_order_relaxed);
  return session;
}

namespace {

/// Has marks of the stream's device something to be measured from: one that is passed at a known
/// time. Of several, the one that took the least.
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
  } catch (const CudaError&) {  // the device is lost: what ran there stays unknown
  }
}

}  // namespace

void stop_session(Session& session) {
  flags.hooks.fetch_and(static_cast<std::uint32_t>(kNvtx), std::memory_order_relaxed);
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
      } catch (const CudaError&) {  // the device is lost: what ran there stays unknown
      }
    }
  }
  for (const Stream& stream : streams) anchor(session, stream);
  session.end = Moment::now();
  Current& now = current();
  now.id.store(0, std::memory_order_release);
  {
    std::lock_guard lock(now.mutex);
    now.session = nullptr;
  }
  // Other threads, which may be about to write, let go of their logs when they record again.
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
