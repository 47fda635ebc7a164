// DataParallelTimes: bytes and times of a DataParallel's steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/parallel/data_parallel/device_comm.h"
#include "ferrite/parallel/reports/reports.h"

namespace ferrite::parallel::dp {

/// Marks in the devices' streams; they are read after they have passed, never waited for.
/// Thread-safe.
class DataParallelTimes {
 public:
  DataParallelTimes(std::vector<Device> devices, const Device& output);

  /// A call of the module. An unfinished one is discarded.
  class Step {
   public:
    explicit Step(const DataParallelTimes& times);
    void scattered(std::int64_t bytes) { scattered_ = bytes; }
    /// Inputs and parameters are on their way to `replicas` devices, which start computing.
    void replicated(std::size_t replicas);
    void applied();
    void gathered(std::int64_t bytes);

   private:
    friend class DataParallelTimes;
    using Span = std::pair<Event, Event>;
    bool has_passed() const;

    const std::vector<Device>* devices_;
    Device output_;
    Event begun_, output_begun_;
    std::vector<Span> replicas_, reductions_;
    std::optional<Event> gathered_;
    std::int64_t scattered_ = 0, gathered_bytes_ = 0;
  };
  void end(Step step);

  void broadcast(std::int64_t bytes);
  /// Gradients were summed from `begun` to this point in the current stream of the first device.
  void reduced(std::int64_t bytes, const Event& begun);

  void fill(DataParallelReport& report);
  void reset();

 private:
  struct Sums {
    std::int64_t steps = 0, timed = 0, reduced = 0;
    double prepare = 0, forward = 0, gather = 0, reduction = 0, exposed = 0;
    std::vector<double> replicas;
    void add(const Step& step);
    void add(const std::vector<Step::Span>& reductions);
  };

  const std::vector<Device> devices_;
  const Device output_;
  std::mutex mutex_;            // gradients arrive in the threads of backward
  std::deque<Step> under_way_;  // gradients belong to the last one
  Sums sums_;
  std::int64_t scattered_ = 0, broadcast_ = 0, reduced_ = 0, gathered_ = 0;
};

/// Wraps a transport and reports every call to `times`; thread-safe.
std::shared_ptr<DeviceComm> make_measured_comm(std::shared_ptr<DeviceComm> comm,
                                               std::shared_ptr<DataParallelTimes> times);

}  // namespace ferrite::parallel::dp
