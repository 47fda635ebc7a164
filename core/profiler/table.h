// Averages of a recording's events, and a human-readable table of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/profiler/recording.h"

namespace ferrite::profiler {

/// All events of one name and kind (and, if grouped by shape, of the same input shapes). Times in
/// nanoseconds and bytes are sums. The time of a recursive function counts once.
struct Average {
  std::string name;                ///< display_name()
  Kind kind = Kind::op;            ///< what kind of ranges the row is of
  bool is_device_work = false;     ///< a row of device work, which has no host time
  std::string inputs;              ///< the shapes of the inputs, if rows are grouped by shape
  std::int64_t count = 0;          ///< the number of calls
  std::int64_t cpu_time = 0;       ///< nanoseconds on the host, with ranges within
  std::int64_t self_cpu_time = 0;  ///< nanoseconds on the host, without ranges within
  /// Nanoseconds of the device work that was queued, with ranges within.
  std::int64_t device_time = 0;
  /// Nanoseconds of the device work that was queued, without ranges within.
  std::int64_t self_device_time = 0;
  std::int64_t cpu_memory = 0;  ///< bytes of host memory allocated less freed, with ranges within
  /// Bytes of host memory allocated less freed, without ranges within.
  std::int64_t self_cpu_memory = 0;
  /// Bytes of device memory allocated less freed, with ranges within.
  std::int64_t device_memory = 0;
  /// Bytes of device memory allocated less freed, without ranges within.
  std::int64_t self_device_memory = 0;
};

/// The options of table().
struct TableOptions {
  /// torch's keys: "cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time" and so on (or
  /// "cuda_time" ...), "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
  /// "self_device_memory_usage", "count"; largest first. Default: the self time on devices if there
  /// is any, else on the CPU.
  std::string_view sort_by = {};
  std::int64_t row_limit = 100;  ///< -1: all
  bool group_by_shape = false;   ///< whether calls of different shapes have rows of their own
  /// Whether kernels and other device work get rows of their own; if not, their time is included
  /// only in that of the op that ran them.
  bool kernels = false;
  /// Longer names are cut and end in "...".
  int max_name_width = 55;
};

/// The rows of the table.
std::vector<Average> key_averages(const Recording& recording, bool group_by_shape = false,
                                  bool kernels = false);
/// ValueError if sort_by is none of the keys.
std::string table(const Recording& recording, const TableOptions& options = {});

}  // namespace ferrite::profiler
