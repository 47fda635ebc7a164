// Averages of a recording's events, and the table of them that people read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/profiler/recording.h"

namespace ferrite::profiler {

/// All events of one name and kind (and of the same input shapes, where they are told apart).
/// Times in nanoseconds and bytes are sums. Of a function that calls itself the time counts once.
struct Average {
  std::string name;  ///< display_name()
  Kind kind = Kind::op;
  bool is_device_work = false;  ///< a row of work on devices, which has no host time
  std::string inputs;
  std::int64_t count = 0;
  std::int64_t cpu_time = 0, self_cpu_time = 0;
  std::int64_t device_time = 0, self_device_time = 0;
  std::int64_t cpu_memory = 0, self_cpu_memory = 0;
  std::int64_t device_memory = 0, self_device_memory = 0;
};

struct TableOptions {
  /// torch's words: "cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time" and so on
  /// (or "cuda_time" ...), "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
  /// "self_device_memory_usage", "count"; the largest first. Default: the self time on devices
  /// where there is any, else on the CPU.
  std::string_view sort_by = {};
  std::int64_t row_limit = 100;  ///< -1: all
  bool group_by_shape = false;
  /// Whether kernels and other work of devices have rows of their own; else their time is that of
  /// the op that ran them, and only there.
  bool kernels = false;
  /// Of names; longer ones end in "...".
  int max_name_width = 55;
};

std::vector<Average> key_averages(const Recording& recording, bool group_by_shape = false,
                                  bool kernels = false);
/// ValueError where sort_by is none of the words.
std::string table(const Recording& recording, const TableOptions& options = {});

}  // namespace ferrite::profiler
