#include "ferrite/parallel/pipeline/step_times.h"

#include <algorithm>

#include "ferrite/core/allocator.h"

namespace ferrite::parallel::pipeline {

StepTimes::StepTimes(int stages, int micro_batches)
    : stages_(stages),
      micro_batches_(micro_batches),
      spans_(static_cast<std::size_t>(3 * stages * micro_batches)),
      open_(static_cast<std::size_t>(stages), -1) {}

const StepTimes::Span& StepTimes::span(Work work, int stage, int micro_batch) const {
  return spans_[static_cast<std::size_t>((work * stages_ + stage) * micro_batches_ + micro_batch)];
}

StepTimes::Span& StepTimes::span(Work work, int stage, int micro_batch) {
  return const_cast<Span&>(std::as_const(*this).span(work, stage, micro_batch));
}

void StepTimes::begin(Work work, int stage, int micro_batch, const Stream& stream) {
  if (finished()) return;  // a second pass through the same graph
  span(work, stage, micro_batch).begin.emplace().record(stream);
  if (work == kBackward) open_[static_cast<std::size_t>(stage)] = micro_batch;
}

void StepTimes::end(Work work, int stage, int micro_batch, const Stream& stream) {
  if (finished()) return;
  span(work, stage, micro_batch).end.emplace().record(stream);
  if (work == kBackward) open_[static_cast<std::size_t>(stage)] = -1;
}

void StepTimes::close(int stage, int micro_batch, const Stream& stream) {
  const int open = open_[static_cast<std::size_t>(stage)];
  if (open >= 0 && open != micro_batch) end(kBackward, stage, open, stream);
}

void StepTimes::crossed(std::int64_t bytes) {
  if (!finished()) bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void StepTimes::finish(const std::vector<Stream>& streams) {
  if (finished()) return;
  for (int stage = 0; stage < stages_; ++stage)
    close(stage, -1, streams[static_cast<std::size_t>(stage)]);
  finished_.store(true, std::memory_order_release);
}

bool StepTimes::passed() const {
  return finished() && std::ranges::all_of(spans_, [](const Span& s) {
           return (!s.begin || s.begin->query()) && (!s.end || s.end->query());
         });
}

void StepTimes::add(PipelineReport& report) const {
  report.bytes_moved += bytes_.load(std::memory_order_relaxed);
  for (int stage = 0; stage < stages_; ++stage) {
    PipelineReport::Stage& of = report.stages[static_cast<std::size_t>(stage)];
    for (int m = 0; m < micro_batches_; ++m) {
      of.forward_ms += span(kForward, stage, m).ms();
      of.recompute_ms += span(kRecompute, stage, m).ms();
      of.backward_ms += span(kBackward, stage, m).ms();
    }
  }
  // The first stage to begin is the last to end; two marks of one device can be compared.
  int first = 0;
  while (first + 1 < stages_ && !span(kBackward, first, 0).end) ++first;
  const Span &begun = span(kForward, first, 0), &ended = span(kBackward, first, 0);
  const Span &left = span(kForward, stages_ - 1, micro_batches_ - 1),
             &back = span(kBackward, stages_ - 1, micro_batches_ - 1);
  if (!ended.end || !back.begin) return;
  report.step_ms += ended.end->elapsed_ms(*begun.begin) - back.begin->elapsed_ms(*left.end);
}

ActivationMemory::ActivationMemory(std::vector<Device> devices) {
  for (const Device& device : devices)
    if (std::ranges::none_of(devices_, [&](const OfDevice& d) { return d.device == device; }))
      devices_.push_back({device});
}

void ActivationMemory::begin() {
  std::lock_guard lock(mutex_);
  for (OfDevice& d : devices_) d.base = static_cast<std::int64_t>(memory_allocated(d.device));
}

void ActivationMemory::look(const Device& device) {
  const auto now = static_cast<std::int64_t>(memory_allocated(device));
  std::lock_guard lock(mutex_);
  for (OfDevice& d : devices_)
    if (d.device == device) d.peak = std::max(d.peak, now - d.base);
}

std::vector<PipelineReport::Memory> ActivationMemory::report() const {
  std::lock_guard lock(mutex_);
  std::vector<PipelineReport::Memory> memory;
  for (const OfDevice& d : devices_) memory.push_back({d.device, d.peak});
  return memory;
}

void ActivationMemory::reset() {
  std::lock_guard lock(mutex_);
  for (OfDevice& d : devices_) d.peak = 0;
}

}  // namespace ferrite::parallel::pipeline
