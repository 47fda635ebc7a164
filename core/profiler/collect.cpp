#include "ferrite/core/profiler/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

namespace ferrite::profiler::detail {

namespace {

class Collector {
 public:
  Collector(Session& session, bool host)
      : session_(session), keeps_host_(host), clock_(session.begin, session.end) {}

  Recording collect() {
    out_.time = clock_.nanoseconds(session_.end.ticks);
    out_.wall_clock = session_.wall_clock;
    out_.has_host = keeps_host_;
    out_.has_devices = (session_.hooks & kDevices) != 0;
    out_.has_memory = (session_.hooks & kMemory) != 0;
    out_.has_inputs = (session_.hooks & kShapes) != 0;
    const std::lock_guard lock(session_.mutex);
    index_.resize(session_.logs.size());
    for (const auto& log : session_.logs) add_thread(*log);
    for (const auto& log : session_.logs) add_work(*log);
    for (const auto& log : session_.logs) add_memory(*log);
    std::ranges::stable_sort(out_.memory, {}, &MemoryEvent::time);
    std::ranges::stable_sort(out_.device, {}, [](const DeviceEvent& e) {
      return std::tuple(e.device.type(), e.device.index(), e.stream, e.begin);
    });
    put_in_order();
    add_up();
    session_.logs.clear();
    return std::move(out_);
  }

 private:
  void add_thread(Log& log);
  void add_ranges(Log& log);
  void add_work(Log& log);
  void add_memory(Log& log);
  void add_device(Log& log, DeviceRecord& record);
  std::int32_t inputs_of(Log& log, const ShapeRecord& record);
  void put_in_order();
  void add_up();

  std::int64_t host_event(std::uint32_t log, std::uint32_t range) const {
    if (range == 0 || log >= index_.size()) return -1;
    const auto& index = index_[log];
    return range < index.size() ? index[range] : -1;
  }
  const Anchor* anchor_of(const Device& device) const {
    const auto found = std::ranges::find(session_.anchors, device, &Anchor::device);
    return found != session_.anchors.end() ? &*found : nullptr;
  }

  Session& session_;
  const bool keeps_host_;
  const Calibration clock_;
  Recording out_;
  std::vector<std::vector<std::int64_t>> index_;  // position in `host`, by log and range
  std::unordered_map<std::string, std::int32_t> known_inputs_;
};

void Collector::add_thread(Log& log) {
  out_.threads.push_back({log.thread, log.name});
  out_.dropped += log.dropped.load(std::memory_order_relaxed);
  const std::uint64_t opened = log.opened.load(std::memory_order_relaxed);
  const std::uint64_t closed = log.closed.load(std::memory_order_relaxed);
  if (keeps_host_) out_.unfinished += opened - std::min(opened, closed);
  if (keeps_host_) add_ranges(log);
}

void Collector::add_ranges(Log& log) {
  std::vector<const RangeRecord*> records;
  log.ranges.for_each([&](const RangeRecord& record) { records.push_back(&record); });
  // Ids are assigned as ranges begin, so parents come before their children.
  std::ranges::sort(records, {}, &RangeRecord::id);
  std::vector<std::int32_t> inputs;
  log.shapes.for_each([&](const ShapeRecord& r) { inputs.push_back(inputs_of(log, r)); });
  auto& index = index_[log.index];
  for (const RangeRecord* r : records) {
    if (index.size() <= r->id) index.resize(r->id + 1, -1);
    index[r->id] = static_cast<std::int64_t>(out_.host.size());
    HostEvent e;
    e.name = r->name;
    e.kind = r->kind;
    e.thread = log.index;
    e.begin = clock_.nanoseconds(r->begin);
    // Computed from the converted end, so that ranges that nest in ticks also nest in nanoseconds.
    e.time = clock_.nanoseconds(r->end) - e.begin;
    const std::uint64_t ticks = r->end - r->begin;
    e.self_time = std::min(e.time, clock_.duration(ticks - std::min(r->children, ticks)));
    e.parent = host_event(log.index, r->parent);
    e.sequence = static_cast<std::int64_t>(r->sequence) - 1;
    e.self_host_bytes = e.host_bytes = r->host_bytes;
    e.self_device_bytes = e.device_bytes = r->device_bytes;
    if (r->shapes > 0 && r->shapes <= inputs.size()) e.inputs = inputs[r->shapes - 1];
    e.module = r->module;
    out_.host.push_back(e);
  }
}

std::int32_t Collector::inputs_of(Log&, const ShapeRecord& record) {
  std::string shapes, dtypes;
  std::size_t dim = 0;
  for (std::size_t i = 0; i < record.tensors; ++i) {
    if (i > 0) shapes += ", ", dtypes += ", ";
    shapes += '[';
    for (int d = 0; d < record.ndim[i]; ++d)
      shapes += fmt::format("{}{}", d > 0 ? ", " : "", record.dims[dim++]);
    shapes += ']';
    if (record.ndim[i] >= 0) dtypes += fmt::format("{}", record.dtype[i]);
  }
  if (record.more) shapes += ", ...";
  const auto [known, is_new] = known_inputs_.try_emplace(
      shapes + '|' + dtypes, static_cast<std::int32_t>(out_.inputs.size()));
  if (is_new) {
    out_.inputs.push_back(std::move(shapes));
    out_.dtypes.push_back(std::move(dtypes));
  }
  return known->second;
}

void Collector::add_work(Log& log) {
  log.work.for_each([&](const WorkRecord& r) {
    out_.device.push_back({.name = r.name,
                           .device = Device(DeviceType::cpu, r.device),
                           .stream = r.stream,
                           .begin = clock_.nanoseconds(r.begin),
                           .time = clock_.nanoseconds(r.end) - clock_.nanoseconds(r.begin),
                           .host = host_event(r.log, r.range),
                           .asked = clock_.nanoseconds(r.asked),
                           .thread = r.log});
  });
  log.device.for_each([&](DeviceRecord& r) { add_device(log, r); });
}

void Collector::add_device(Log& log, DeviceRecord& r) {
  const Device device(DeviceType::cuda, r.device);
  const Anchor* anchor = anchor_of(device);
  const auto time = anchor ? r.end->milliseconds_since(*r.begin) : std::nullopt;
  const auto before_anchor = time ? anchor->mark->milliseconds_since(*r.begin) : std::nullopt;
  if (!before_anchor) {
    ++out_.unresolved;
    return;
  }
  constexpr double kNanoseconds = 1e6;  // in a millisecond
  const std::int64_t begin =
      clock_.nanoseconds(anchor->ticks) - std::llround(*before_anchor * kNanoseconds);
  out_.device.push_back({.name = r.name,
                         .device = device,
                         .stream = r.stream,
                         .begin = begin,
                         .time = std::llround(*time * kNanoseconds),
                         .host = host_event(log.index, r.range),
                         .asked = clock_.nanoseconds(r.asked),
                         .thread = log.index});
  r.begin = r.end = nullptr;  // back to the pool
}

void Collector::add_memory(Log& log) {
  log.memory.for_each([&](const MemoryRecord& r) {
    out_.memory.push_back({.time = clock_.nanoseconds(r.when),
                           .device = Device(r.device, r.index),
                           .bytes = r.bytes,
                           .allocated = r.allocated,
                           .reserved = r.reserved,
                           .host = host_event(log.index, r.range),
                           .thread = log.index});
  });
}

/// A stream runs one piece of work at a time, but CUDA event times, whose resolution falls to half
/// a microsecond with the distance from the anchor, may appear to overlap.
void Collector::put_in_order() {
  for (std::size_t i = 1; i < out_.device.size(); ++i) {
    const DeviceEvent& before = out_.device[i - 1];
    DeviceEvent& e = out_.device[i];
    if (e.device == before.device && e.stream == before.stream)
      e.begin = std::max(e.begin, before.begin + before.time);
  }
}

/// Adds the totals of each range to its parent. Children come after their parents.
void Collector::add_up() {
  for (const DeviceEvent& e : out_.device)
    if (e.host >= 0) out_.host[static_cast<std::size_t>(e.host)].self_device_time += e.time;
  for (HostEvent& e : out_.host) e.device_time = e.self_device_time;
  for (auto e = out_.host.rbegin(); e != out_.host.rend(); ++e) {
    if (e->parent < 0) continue;
    HostEvent& parent = out_.host[static_cast<std::size_t>(e->parent)];
    parent.device_time += e->device_time;
    parent.host_bytes += e->host_bytes;
    parent.device_bytes += e->device_bytes;
  }
}

}  // namespace

Recording collect(Session& session, bool host) { return Collector(session, host).collect(); }

}  // namespace ferrite::profiler::detail
