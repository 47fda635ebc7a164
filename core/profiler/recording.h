// What a profile has recorded: events of the host and of devices, memory, steps; and what is made
// of it, a table of averages (table.h) or a trace (trace.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/profiler/range.h"

namespace ferrite::profiler {

/// A range of one thread. Times are nanoseconds, since the recording's begin; bytes are those
/// allocated less those freed.
struct HostEvent {
  const char* name = "";
  Kind kind = Kind::user;
  std::uint32_t thread = 0;          ///< in Recording::threads
  std::int64_t begin = 0, time = 0;  ///< what it took, all within it included
  std::int64_t self_time = 0;        ///< less what the ranges within it took
  std::int64_t parent = -1;          ///< the range around it, in Recording::host; -1: none
  /// Which node of the tape an op made or a backward ran, as they are numbered; -1: none.
  std::int64_t sequence = -1;
  /// Of work that devices did for it, the ranges within included or not.
  std::int64_t device_time = 0, self_device_time = 0;
  std::int64_t host_bytes = 0, self_host_bytes = 0;      ///< of the host's memory
  std::int64_t device_bytes = 0, self_device_bytes = 0;  ///< of that of all devices
  std::int32_t inputs = -1;                              ///< in Recording::inputs; -1: not known
  const void* module = nullptr;  ///< of a module's call, the module, which may be gone
};

/// Work of a device: of a CUDA device between two events of a stream, of a virtual one what its
/// worker thread ran.
struct DeviceEvent {
  const char* name = "";
  Device device;
  std::uint32_t stream = 0;
  std::int64_t begin = 0, time = 0;
  std::int64_t host = -1;    ///< the range that asked for it, in Recording::host; -1: none
  std::int64_t asked = 0;    ///< when
  std::uint32_t thread = 0;  ///< by which thread
};

/// Memory was allocated, or freed where `bytes` is below 0.
struct MemoryEvent {
  std::int64_t time = 0;
  Device device;
  std::int64_t bytes = 0;
  std::uint64_t allocated = 0, reserved = 0;  ///< of the device from here on
  std::int64_t host = -1;                     ///< the range that did it
  std::uint32_t thread = 0;
};

struct ThreadInfo {
  std::int64_t id = 0;  ///< the system's
  std::string name;
};

/// From one Profile::step() to the next.
struct StepEvent {
  std::int64_t number = 0, begin = 0, time = 0;
};

struct Recording {
  std::vector<ThreadInfo> threads;
  std::vector<HostEvent> host;      ///< by thread, in the order in which they began
  std::vector<DeviceEvent> device;  ///< by device and stream, in the order in which they ran
  std::vector<MemoryEvent> memory;  ///< in order
  std::vector<StepEvent> steps;
  std::vector<std::string> inputs;             ///< shapes, "[64, 1, 28, 28], [6, 1, 5, 5], []"
  std::vector<std::string> dtypes;             ///< as many, "float32, float32, "
  std::map<const void*, std::string> modules;  ///< their names, where they were given
  std::int64_t time = 0;                       ///< nanoseconds from begin to end
  std::int64_t wall_clock = 0;                 ///< nanoseconds since 1970 at the begin
  int rank = 0;
  bool has_host = true, has_devices = false, has_memory = false, has_inputs = false;
  std::uint64_t dropped = 0;     ///< events that the limit left no room for
  std::uint64_t unfinished = 0;  ///< ranges that were open at the end; they are not among `host`
  std::uint64_t unresolved = 0;  ///< work of devices whose times are not known

  /// The most bytes that were allocated on a device at a time; 0 where nothing is known of it.
  std::uint64_t peak_memory(const Device& device) const;
};

/// As tables show it: "conv2d", "conv2d backward", "nn.Conv2d", "Optimizer.step#sgd".
std::string display_name(const char* name, Kind kind);
/// "op", "backward", ...
const char* kind_name(Kind kind);

}  // namespace ferrite::profiler
