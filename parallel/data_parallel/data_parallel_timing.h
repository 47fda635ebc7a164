// DataParallelTimes: what the steps of a DataParallel moved, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/stream.h"
#include "parallel/data_parallel/data_parallel_report.h"
#include "parallel/data_parallel/device_comm.h"

namespace ferrite::parallel {

/// Marks in the devices' streams; they are read when they have passed, never waited for.
class DataParallelTimes {
 public:
  explicit DataParallelTimes(std::vector<Device> devices, const Device& output);

  /// A call of the module begins; one that is not ended leaves no trace.
  void begin();
  void scattered(std::int64_t bytes);
  /// Inputs and parameters are on their way to `replicas` devices, which begin.
  void replicated(std::size_t replicas);
  void applied();
  void gathered(std::int64_t bytes);
  void end();

  void broadcast(std::int64_t bytes);
  /// Marks the root's current stream where a sum of gradients begins, and where it has ended.
  void begin_reduction();
  void end_reduction(std::int64_t bytes);

  void fill(DataParallelReport& report);
  void reset();

 private:
  struct Step {
    Event begun, prepared, output_begun;
    std::optional<Event> ended;  // of the gather
    std::vector<std::pair<Event, Event>> replicas;
    std::vector<std::pair<Event, Event>> reductions;
    bool has_passed() const;
  };
  struct Sums {
    std::int64_t steps = 0, timed = 0, reduced = 0;
    double prepare = 0, forward = 0, gather = 0, reduction = 0, exposed = 0;
    std::vector<double> replicas;
    void add(const Step& step);
  };

  const std::vector<Device> devices_;
  const Device output_;
  mutable std::mutex mutex_;  // gradients come in the threads of backward
  std::optional<Step> current_;
  std::deque<Step> ended_;  // gradients are those of the last
  std::optional<Event> reduction_begun_;
  Sums sums_;
  std::int64_t scattered_ = 0, broadcast_ = 0, reduced_ = 0, gathered_ = 0;
};

/// Another transport, with every call told to `times`.
std::shared_ptr<DeviceComm> make_measured_comm(std::shared_ptr<DeviceComm> comm,
                                               std::shared_ptr<DataParallelTimes> times);

}  // namespace ferrite::parallel
