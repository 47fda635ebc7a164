// When the stages of a pipeline worked, and what memory that took.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/stream.h"
#include "parallel/pipeline/pipeline_report.h"

namespace ferrite::parallel {

/// Of one step. Forward is written by the thread that runs it, each stage's backward by one thread
/// of the engine's; all is read once finish() has been called.
class StepTimes {
 public:
  enum Work { kForward, kRecompute, kBackward };

  /// `bytes` have crossed between devices so far.
  StepTimes(int stages, int micro_batches, std::int64_t bytes);

  /// A mark on `stream`, where times[...] begins or ends.
  void begin(Work work, int stage, int micro_batch, const Stream& stream);
  void end(Work work, int stage, int micro_batch, const Stream& stream);
  /// Ends the stage's backward of any other micro-batch: its device is about to work on this one.
  void close(int stage, int micro_batch, const Stream& stream);

  /// Whether this is the first to ask.
  bool first_of_backward() { return !in_backward_.exchange(true); }
  /// Backward is over; `streams` are those of the stages.
  void finish(const std::vector<Stream>& streams, std::int64_t bytes);
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  /// Whether the devices have come to the end of it; then add() adds its times to the report.
  bool passed() const;
  void add(PipelineReport& report) const;

 private:
  struct Span {
    std::optional<Event> begin, end;
    double ms() const { return begin && end ? end->elapsed_ms(*begin) : 0; }
  };
  Span& span(Work work, int stage, int micro_batch);
  const Span& span(Work work, int stage, int micro_batch) const;

  const int stages_, micro_batches_;
  std::vector<Span> spans_;
  std::int64_t bytes_;     ///< at first those so far, then those of the step
  std::vector<int> open_;  ///< the micro-batch that a stage runs backward for, or -1
  std::atomic<bool> in_backward_ = false, finished_ = false;
};

/// What the allocators of the stages' devices hold beyond what they held when the step began.
class ActivationMemory {
 public:
  explicit ActivationMemory(std::vector<Device> devices);
  void begin();
  void look(const Device& device);
  std::vector<PipelineReport::Memory> report() const;
  void reset();

 private:
  struct OfDevice {
    Device device;
    std::int64_t base = 0, peak = 0;
  };
  mutable std::mutex mutex_;
  std::vector<OfDevice> devices_;  // each once
};

}  // namespace ferrite::parallel
