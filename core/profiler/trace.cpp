#include "ferrite/core/profiler/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <ostream>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/signals.h"

namespace ferrite::profiler {

namespace {

// Times are relative to a multiple of this unit, so that the doubles in which viewers read them
// resolve nanoseconds, and that processes which run together share the same base.
constexpr std::int64_t kBaseUnit = 8'640'000'000'000'000;  // 100 days

constexpr std::string_view kOpening = "\"traceEvents\": [\n";
constexpr std::string_view kClosing = "\n]}\n";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

/// Rows of the trace are threads of processes; each rank has a thousand process ids.
constexpr std::int64_t kProcesses = 1000, kStepsRow = 999'999'999;  // no thread has that number

class Writer {
 public:
  Writer(const Recording& recording, std::ostream& out)
      : recording_(recording),
        out_(out),
        base_(recording.wall_clock / kBaseUnit * kBaseUnit),
        host_((recording.rank + 1) * kProcesses) {}

  void write() {
    out_ << fmt::format(
        "{{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": {},\n"
        "\"distributedInfo\": {{\"rank\": {}}}, \"droppedEvents\": {}, {}",
        base_, recording_.rank, recording_.dropped, kOpening);
    name_rows();
    for (const StepEvent& step : recording_.steps) add_step(step);
    for (const HostEvent& e : recording_.host) add_host(e);
    for (const DeviceEvent& e : recording_.device) add_device(e);
    for (const MemoryEvent& e : recording_.memory) add_memory(e);
    link_backward();
    flush();
    out_ << kClosing;
  }

 private:
  void name_process(std::int64_t process, std::string_view name, int order);
  void name_thread(std::int64_t process, std::int64_t thread, std::string_view name,
                   std::int64_t order);
  void name_rows();
  void add_step(const StepEvent& step);
  void add_host(const HostEvent& e);
  void add_device(const DeviceEvent& e);
  void add_memory(const MemoryEvent& e);
  void link_backward();
  void flow(char phase, std::string_view category, std::int64_t process, std::int64_t thread,
            std::int64_t time, std::uint64_t id);

  std::int64_t process_of(const Device& device) const {
    if (device.is_host()) return host_;
    return host_ + device.index() + (device.is_cuda() ? 1 : 101);
  }
  /// Streams of the host device are rows among its threads, whose numbers are lower.
  std::int64_t row_of(const DeviceEvent& e) const {
    constexpr std::int64_t kAboveThreads = 1'000'000'000;
    return e.device.is_host() ? kAboveThreads + e.stream : e.stream;
  }
  std::int64_t row_of(std::uint32_t thread) const {
    return thread < recording_.threads.size() ? recording_.threads[thread].id : 0;
  }
  std::string name_of(const HostEvent& e) const {
    const std::string name = display_name(e.name, e.kind);
    const auto module = e.module ? recording_.modules.find(e.module) : recording_.modules.end();
    return module == recording_.modules.end() || module->second.empty()
               ? name
               : name + ' ' + module->second;
  }
  /// In microseconds, with nanosecond digits.
  std::string time(std::int64_t t) const {
    const std::int64_t at = recording_.wall_clock - base_ + t;
    return fmt::format("{}.{:03}", at / 1000, at % 1000);
  }
  static std::string duration(std::int64_t t) {
    t = std::max<std::int64_t>(t, 0);
    return fmt::format("{}.{:03}", t / 1000, t % 1000);
  }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!first_) buffer_.append(std::string_view(",\n"));
    first_ = false;
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    constexpr std::size_t kEnough = std::size_t{1} << 20;
    if (buffer_.size() >= kEnough) flush();
  }
  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

  const Recording& recording_;
  std::ostream& out_;
  const std::int64_t base_, host_;
  fmt::memory_buffer buffer_;
  bool first_ = true;
  std::uint64_t last_flow_ = 0;
};

// ---- Rows

void Writer::name_process(std::int64_t process, std::string_view name, int order) {
  add(R"({{"ph": "M", "name": "process_name", "pid": {}, "tid": 0, "args": {{"name": "rank {}: {}"}}}})",
      process, recording_.rank, escaped(name));
  add(R"({{"ph": "M", "name": "process_sort_index", "pid": {}, "tid": 0, "args": {{"sort_index": {}}}}})",
      process, recording_.rank * kProcesses + order);
}

void Writer::name_thread(std::int64_t process, std::int64_t thread, std::string_view name,
                         std::int64_t order) {
  add(R"({{"ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": "{}"}}}})",
      process, thread, escaped(name));
  add(R"({{"ph": "M", "name": "thread_sort_index", "pid": {}, "tid": {}, "args": {{"sort_index": {}}}}})",
      process, thread, order);
}

void Writer::name_rows() {
  name_process(host_, fmt::format("host (process {})", getpid()), 0);
  if (!recording_.steps.empty()) name_thread(host_, kStepsRow, "steps", 0);
  for (std::size_t i = 0; i < recording_.threads.size(); ++i)
    name_thread(host_, recording_.threads[i].id, recording_.threads[i].name,
                static_cast<std::int64_t>(i + 1));
  std::set<std::tuple<std::int64_t, std::uint32_t>> streams;
  std::set<std::int64_t> processes = {host_};
  for (const DeviceEvent& e : recording_.device) {
    const std::int64_t process = process_of(e.device);
    if (processes.insert(process).second)
      name_process(process, e.device.str(), static_cast<int>(process - host_));
    if (streams.insert({process, e.stream}).second)
      name_thread(process, row_of(e), fmt::format("stream {}", e.stream), row_of(e));
  }
  for (const MemoryEvent& e : recording_.memory)
    if (!e.device.is_host() && processes.insert(process_of(e.device)).second)
      name_process(process_of(e.device), e.device.str(),
                   static_cast<int>(process_of(e.device) - host_));
}

// ---- Events

void Writer::add_step(const StepEvent& step) {
  add(R"({{"ph": "X", "cat": "step", "name": "step {}", "pid": {}, "tid": {}, "ts": {}, "dur": {}}})",
      step.number, host_, kStepsRow, time(step.begin), duration(step.time));
}

void Writer::add_host(const HostEvent& e) {
  std::string args;
  const auto arg = [&](std::string_view name, const auto& value) {
    args += fmt::format("{}\"{}\": {}", args.empty() ? "" : ", ", name, value);
  };
  if (e.inputs >= 0) {
    const auto i = static_cast<std::size_t>(e.inputs);
    arg("Input Dims",
        fmt::format("[{}]", recording_.inputs[i].ends_with("...")
                                ? recording_.inputs[i].substr(0, recording_.inputs[i].size() - 5)
                                : recording_.inputs[i]));
    arg("Input type", fmt::format("\"{}\"", recording_.dtypes[i]));
  }
  if (e.sequence >= 0) arg("Sequence number", e.sequence);
  if (e.self_host_bytes != 0) arg("Bytes", e.self_host_bytes);
  if (e.self_device_bytes != 0) arg("Device Bytes", e.self_device_bytes);
  if (e.device_time != 0) arg("Device us", duration(e.device_time));
  add(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
      kind_name(e.kind), escaped(name_of(e)), host_, row_of(e.thread), time(e.begin),
      duration(e.time), args);
}

void Writer::flow(char phase, std::string_view category, std::int64_t process, std::int64_t thread,
                  std::int64_t at, std::uint64_t id) {
  add(R"({{"ph": "{}", {}"cat": "{}", "name": "{}", "id": "{}.{}", "pid": {}, "tid": {}, "ts": {}}})",
      phase, phase == 'f' ? "\"bp\": \"e\", " : "", category, category, recording_.rank, id,
      process, thread, time(at));
}

void Writer::add_device(const DeviceEvent& e) {
  const std::int64_t process = process_of(e.device);
  std::string args;
  if (e.host >= 0) {
    const HostEvent& host = recording_.host[static_cast<std::size_t>(e.host)];
    args = fmt::format("\"op\": \"{}\"", escaped(display_name(host.name, host.kind)));
  }
  add(R"({{"ph": "X", "cat": "device", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
      escaped(e.name), process, row_of(e), time(e.begin), duration(e.time), args);
  if (e.host < 0) return;
  const HostEvent& host = recording_.host[static_cast<std::size_t>(e.host)];
  const std::int64_t asked = std::clamp(e.asked, host.begin, host.begin + host.time);
  const std::uint64_t id = ++last_flow_;
  flow('s', "host to device", host_, row_of(host.thread), asked, id);
  flow('f', "host to device", process, row_of(e), e.begin, id);
}

void Writer::add_memory(const MemoryEvent& e) {
  add(R"({{"ph": "C", "name": "memory of {}", "pid": {}, "ts": {}, "args": {{"allocated": {}, "cached": {}}}}})",
      e.device.str(), process_of(e.device), time(e.time), e.allocated,
      e.reserved >= e.allocated ? e.reserved - e.allocated : 0);
}

/// Draws arrows from the op that put a node on the tape to the node's backward.
void Writer::link_backward() {
  std::unordered_map<std::int64_t, const HostEvent*> makers;
  for (const HostEvent& e : recording_.host)
    if (e.sequence >= 0 && e.kind != Kind::backward) makers[e.sequence] = &e;
  for (const HostEvent& e : recording_.host) {
    if (e.kind != Kind::backward || e.sequence < 0) continue;
    const auto made = makers.find(e.sequence);
    if (made == makers.end()) continue;
    const HostEvent& op = *made->second;
    const std::uint64_t id = ++last_flow_;
    flow('s', "forward to backward", host_, row_of(op.thread), op.begin, id);
    flow('f', "forward to backward", host_, row_of(e.thread), e.begin, id);
  }
}

std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  FERRITE_CHECK(in, Error, "merge_traces", "cannot read {}", file);
  std::string text;
  std::array<char, 1 << 16> part{};
  while (in.read(part.data(), part.size()), in.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  FERRITE_CHECK(!in.bad(), Error, "merge_traces", "cannot read {}", file);  // such as a folder
  return text;
}

std::ofstream opened(const std::string& file, const char* op) {
  ignore_unless_handled(SIGXFSZ);
  std::ofstream out(file, std::ios::binary);
  FERRITE_CHECK(out, Error, op, "cannot write {}", file);
  return out;
}

}  // namespace

void write_trace(const Recording& recording, std::ostream& out) { Writer(recording, out).write(); }

void write_trace(const Recording& recording, const std::string& file) {
  std::ofstream out = opened(file, "write_trace");
  write_trace(recording, out);
  out.close();
  FERRITE_CHECK(out, Error, "write_trace", "cannot write {}", file);
}

void merge_traces(std::span<const std::string> files, const std::string& merged) {
  FERRITE_CHECK(!files.empty(), ValueError, "merge_traces", "expected one file or more, got none");
  std::string all, head;
  std::set<std::string> ranks;
  for (const std::string& file : files) {
    const std::string text = read(file);
    const std::size_t begin = text.find(kOpening), rank = text.find("\"rank\": ");
    FERRITE_CHECK(begin != std::string::npos && rank < begin && text.ends_with(kClosing) &&
                      begin + kOpening.size() + kClosing.size() <= text.size(),
                  ValueError, "merge_traces", "{} is no trace that write_trace() wrote", file);
    FERRITE_CHECK(ranks.insert(text.substr(rank, text.find('}', rank) - rank)).second, ValueError,
                  "merge_traces", "{} is of the same rank as another file (RANK, or .rank)", file);
    const std::size_t from = begin + kOpening.size();
    const std::string events = text.substr(from, text.size() - kClosing.size() - from);
    if (head.empty()) head = text.substr(0, from);
    if (!all.empty() && !events.empty()) all += ",\n";
    all += events;
  }
  std::ofstream out = opened(merged, "merge_traces");
  out << head << all << kClosing;
  out.close();
  FERRITE_CHECK(out, Error, "merge_traces", "cannot write {}", merged);
}

}  // namespace ferrite::profiler
