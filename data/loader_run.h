// One epoch of a loader: the threads that make its batches, and the order in which they come.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/device_feed.h"
#include "ferrite/data/epoch_plan.h"

namespace ferrite::data::impl {

/// Where a loader is, shared with its runs.
struct LoaderProgress {
  std::int64_t epoch = 0;
  std::int64_t start = 0;        // samples of the epoch that begin() leaves out
  std::int64_t position = 0;     // samples of the epoch up to the batch in hand
  bool fresh = true;             // begin() starts at epoch and start, not at the next epoch
  std::uint64_t run = 0;         // incremented by begin(): only the newest run reports
  double waited = 0;             // seconds
  std::optional<Stream> copies;  // the stream that copies batches to the device
};

/// Adds the time until the end of the scope, in seconds, to a sum.
class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum) {}
  ~Timed() { sum_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  const Clock::time_point start_ = Clock::now();
};

class LoaderRun {
 public:
  /// From the progress's start on; the plan begins `skip` samples earlier.
  LoaderRun(std::unique_ptr<EpochPlan> plan, std::int64_t skip, const DataLoaderOptions& options,
            std::shared_ptr<LoaderProgress> progress);
  ~LoaderRun();

  /// The next batch, or nothing at the end. Rethrows an exception from its preparation.
  std::unique_ptr<AnyBatch> next();
  /// The first batch was only looked at: it is not done.
  void take_back();

 private:
  struct Slot {
    bool ready = false;
    std::unique_ptr<AnyBatch> batch = nullptr;  // null: nothing to hand out
    std::int64_t samples = 0;
    std::exception_ptr error = nullptr;
  };

  Slot prepare(std::int64_t number) const;
  bool at_end() const { return taken_ >= plan_->count(); }
  bool is_ready();
  Slot take();
  std::optional<Slot> take_batch();
  std::optional<Slot> take_to_device();
  void look_ahead(const AnyBatch& current);
  bool reports() const { return progress_->run == id_; }
  void work();
  void stop();

  const std::unique_ptr<EpochPlan> plan_;
  const std::shared_ptr<LoaderProgress> progress_;
  const std::int64_t epoch_, start_;
  const std::uint64_t id_;
  const bool pin_memory_;
  const Device device_;

  // Used by the caller only, never by workers.
  std::int64_t skip_;          // samples still to be left out
  std::int64_t position_;      // samples up to the last batch handed out
  bool handed_out_ = false;    // whether there was one
  std::optional<Slot> ahead_;  // the batch after that, if already taken
  std::optional<DeviceFeed> feed_;

  std::mutex mutex_;
  std::condition_variable space_, ready_;
  std::vector<Slot> slots_;               // batch b is in slot b modulo their number
  std::int64_t started_ = 0, taken_ = 0;  // batches that workers began, and that were taken
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ferrite::data::impl
