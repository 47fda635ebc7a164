// The result of a profile: events of the host and of devices, memory, steps. Rendered as a table of
// averages (table.h) or a trace (trace.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/profiler/range.h"

namespace ferrite::profiler {

/// A range of one thread. Times are nanoseconds since the start of the recording; bytes are
/// allocated minus freed.
struct HostEvent {
  const char* name = "";
  Kind kind = Kind::user;            ///< what kind of range it is
  std::uint32_t thread = 0;          ///< in Recording::threads
  std::int64_t begin = 0, time = 0;  ///< `time` includes nested ranges
  std::int64_t self_time = 0;        ///< `time` without nested ranges
  std::int64_t parent = -1;          ///< the enclosing range, as an index into Recording::host; -1:
                                     ///< none
  /// The number of the tape node that an op made or a backward ran; -1: none.
  std::int64_t sequence = -1;
  /// Time of the device work it queued, with and without nested ranges.
  std::int64_t device_time = 0, self_device_time = 0;
  std::int64_t host_bytes = 0, self_host_bytes = 0;      ///< in host memory
  std::int64_t device_bytes = 0, self_device_bytes = 0;  ///< in the memory of all devices
  std::int32_t inputs = -1;                              ///< index into Recording::inputs; -1: not
                                                         ///< known
  const void* module = nullptr;  ///< the module of a module call; may no longer exist
};

/// Work of a device: between two events of a stream on a CUDA device, or a task of the worker
/// thread of a virtual one.
struct DeviceEvent {
  const char* name = "";
  Device device;
  std::uint32_t stream = 0;
  std::int64_t begin = 0;    ///< when it began, in nanoseconds from the start of the recording
  std::int64_t time = 0;     ///< its duration, in nanoseconds
  std::int64_t host = -1;    ///< the range that queued it, in Recording::host; -1: none
  std::int64_t asked = 0;    ///< when it was queued, as `begin`
  std::uint32_t thread = 0;  ///< the thread that caused it
};

/// Memory was allocated, or freed if `bytes` is negative.
struct MemoryEvent {
  std::int64_t time = 0;  ///< when, in nanoseconds from the start of the recording
  Device device;
  std::int64_t bytes = 0;  ///< bytes that were allocated; negative if they were freed
  std::uint64_t allocated = 0, reserved = 0;  ///< totals of the device after it
  std::int64_t host = -1;                     ///< the range that did it
  std::uint32_t thread = 0;                   ///< the thread, as an index into Recording::threads
};

/// A thread that had events.
struct ThreadInfo {
  std::int64_t id = 0;  ///< the system's thread id
  std::string name;
};

/// From one Profile::step() to the next.
struct StepEvent {
  std::int64_t number = 0;  ///< the number of the step
  std::int64_t begin = 0;   ///< when it began, in nanoseconds from the start of the recording
  std::int64_t time = 0;    ///< its duration, in nanoseconds
};

struct Recording {
  std::vector<ThreadInfo> threads;  ///< the threads that had events
  std::vector<HostEvent> host;      ///< by thread, in the order in which they began
  std::vector<DeviceEvent> device;  ///< by device and stream, in the order in which they ran
  std::vector<MemoryEvent> memory;  ///< in order
  std::vector<StepEvent> steps;     ///< the steps, in order
  std::vector<std::string> inputs;  ///< shapes, "[64, 1, 28, 28], [6, 1, 5, 5], []"
  std::vector<std::string> dtypes;  ///< as many, "float32, float32, "
  std::map<const void*, std::string> modules;  ///< their names, if given
  std::int64_t time = 0;                       ///< nanoseconds from begin to end
  std::int64_t wall_clock = 0;                 ///< nanoseconds since 1970 at the begin
  int rank = 0;
  bool has_host = true;          ///< whether ranges of the host were recorded
  bool has_devices = false;      ///< whether work of devices was recorded
  bool has_memory = false;       ///< whether allocations were recorded
  bool has_inputs = false;       ///< whether shapes of inputs were recorded
  std::uint64_t dropped = 0;     ///< events beyond the limit
  std::uint64_t unfinished = 0;  ///< ranges still open at the end; not in `host`
  std::uint64_t unresolved = 0;  ///< device work without known times

  /// The peak of bytes allocated on a device; 0 if it does not occur in the recording.
  std::uint64_t peak_memory(const Device& device) const;
};

/// The name shown in tables: "conv2d", "conv2d backward", "nn.Conv2d", "Optimizer.step#sgd".
std::string display_name(const char* name, Kind kind);
/// "op", "backward", ...
const char* kind_name(Kind kind);

}  // namespace ferrite::profiler
