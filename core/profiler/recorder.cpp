#include <new>
#include <unordered_set>

#include "ferrite/core/cuda.h"
#include "ferrite/core/profiler/recording.h"
#include "ferrite/core/profiler/records.h"
#include "ferrite/core/profiler/thread_state.h"
#include "ferrite/core/profiler/type_name.h"
#include "ferrite/core/tensor.h"
#include "ferrite/core/tracing.h"

namespace ferrite::profiler::detail {

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

// ---- Ranges

namespace {

/// Opens a range; null if it is not recorded. The end of one that is `traced` is reported.
ThreadState* open(Kind kind, const char* name, bool traced = false) {
  ThreadState* thread = state();
  if (!thread) return nullptr;
  const std::uint32_t wanted = flags.hooks.load(std::memory_order_relaxed);
  const std::uint32_t needed = kind == Kind::module ? kModules : kRanges;
  Log* log = (wanted & needed) != 0 ? thread->current_log() : nullptr;
  const bool nvtx = (wanted & kNvtx) != 0 && kind != Kind::kernel;
  if (!log && !nvtx && !traced) return nullptr;
  ThreadState::Frame frame{};
  frame.name = name;
  frame.kind = kind;
  frame.nvtx = nvtx;
  frame.traced = traced;
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

/// Records the inputs of the range just opened.
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

/// Reports the start of an op to the recorder, if there is one; returns whether there is.
bool note_entered(const char* name, std::span<const Tensor* const> inputs) {
  tracing::Recorder* const recorder = tracing::detail::recorder;
  if (recorder) recorder->entered(name, inputs);
  return recorder != nullptr;
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
  const bool traced = note_entered(name, std::span(inputs.begin(), inputs.size()));
  ThreadState* thread = open(Kind::op, name, traced);
  if (thread) note_shapes(thread, inputs, [](const Tensor* t) { return t; });
  return start(thread);
}

ThreadState* begin_op(const char* name, std::span<const Tensor> inputs) {
  bool traced = false;
  if (tracing::detail::recorder) {
    std::vector<const Tensor*> addresses;
    for (const Tensor& t : inputs) addresses.push_back(&t);
    traced = note_entered(name, addresses);
  }
  ThreadState* thread = open(Kind::op, name, traced);
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
  // Work queued for a worker is recorded by the worker; only its name is taken here.
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
  if (frame.traced && tracing::detail::recorder) tracing::detail::recorder->left();
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

}  // namespace ferrite::profiler::detail
