// Times and memory of a pipeline's stages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/parallel/reports/reports.h"

namespace ferrite::parallel::pipeline {

/// Times of one step. Forward is recorded by the thread that runs it, each stage's backward by one
/// thread of the engine; read after finish() has been called.
class StepTimes {
 public:
  enum Work { kForward, kRecompute, kBackward };

  StepTimes(int stages, int micro_batches);

  /// Marks the begin or end of times[...] on `stream`.
  void begin(Work work, int stage, int micro_batch, const Stream& stream);
  void end(Work work, int stage, int micro_batch, const Stream& stream);
  /// Ends the stage's backward of any other micro-batch: its device is about to work on this one.
  void close(int stage, int micro_batch, const Stream& stream);

  /// Returns true for the first caller.
  bool first_of_backward() { return !in_backward_.exchange(true); }
  /// `bytes` are transferred between devices. Thread-safe.
  void crossed(std::int64_t bytes);

  /// Backward is over; `streams` are those of the stages.
  void finish(const std::vector<Stream>& streams);
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  /// Whether the devices have finished it; then add() adds its times to the report.
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
  std::atomic<std::int64_t> bytes_ = 0;
  std::vector<int> open_;  ///< the micro-batch that a stage runs backward for, or -1
  std::atomic<bool> in_backward_ = false, finished_ = false;
};

/// The memory held by the allocators of the stages' devices beyond that at the start of the step.
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

}  // namespace ferrite::parallel::pipeline
