#include "ferrite/data/loader_run.h"

#include <algorithm>
#include <utility>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/thread_name.h"
#include "ferrite/data/host.h"

namespace ferrite::data::impl {

LoaderRun::LoaderRun(std::unique_ptr<EpochPlan> plan, std::int64_t skip,
                     const DataLoaderOptions& options, std::shared_ptr<LoaderProgress> progress)
    : plan_(std::move(plan)),
      progress_(std::move(progress)),
      epoch_(progress_->epoch),
      start_(progress_->start),
      id_(++progress_->run),
      pin_memory_(options.pin_memory && cuda::is_available()),
      device_(options.device),
      skip_(skip),
      position_(start_) {
  if (progress_->copies) feed_.emplace(*progress_->copies);
  const auto threads =
      static_cast<std::size_t>(std::min<std::int64_t>(options.num_workers, plan_->count()));
  slots_.resize(threads * static_cast<std::size_t>(options.prefetch_factor));
  try {
    for (std::size_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

LoaderRun::~LoaderRun() { stop(); }

void LoaderRun::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  space_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

LoaderRun::Slot LoaderRun::prepare(std::int64_t number) const {
  const profiler::detail::LibraryRange range(profiler::Kind::data, "get_batch");
  Slot slot{.ready = true};
  try {
    EpochPlan::Made made = plan_->make(number);
    slot.batch = std::move(made.batch);
    slot.samples = made.samples;
    if (slot.batch)
      for (Tensor* t : slot.batch->tensors) {
        if (!device_.is_host())
          *t = staged(*t, device_);
        else if (pin_memory_)
          *t = pinned(*t);
      }
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

void LoaderRun::work() {
  ferrite::detail::name_thread("data loader");
  const auto slots = static_cast<std::int64_t>(slots_.size());
  const auto none_left = [this] { return stopping_ || started_ >= plan_->count(); };
  std::unique_lock lock(mutex_);
  for (;;) {
    space_.wait(lock, [&] { return none_left() || started_ < taken_ + slots; });
    if (none_left()) return;
    const std::int64_t number = started_++;
    lock.unlock();
    Slot result = prepare(number);
    lock.lock();
    slots_[static_cast<std::size_t>(number % slots)] = std::move(result);
    ready_.notify_one();
  }
}

/// Whether take() would not wait for workers: the batch is ready, or there are none.
bool LoaderRun::is_ready() {
  if (slots_.empty()) return true;
  std::lock_guard lock(mutex_);
  return slots_[static_cast<std::size_t>(taken_) % slots_.size()].ready;
}

/// What the next number gives; nothing if that turns out to be beyond the end.
LoaderRun::Slot LoaderRun::take() {
  if (slots_.empty()) return prepare(taken_++);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
  ready_.wait(lock, [&] { return slot.ready || at_end(); });
  if (!slot.ready) return {};
  Slot result = std::exchange(slot, {});
  ++taken_;
  lock.unlock();
  space_.notify_one();
  return result;
}

/// The next batch that was not taken yet, or the exception from its preparation.
std::optional<LoaderRun::Slot> LoaderRun::take_batch() {
  while (!at_end()) {
    Slot slot = take();
    if (slot.error) return slot;
    if (skip_ > 0) {
      skip_ -= slot.samples;
      FERRITE_CHECK(skip_ >= 0, ValueError, "data_loader",
                    "the state is of a loader with another batch size: position {} is within a "
                    "batch",
                    start_);
    } else if (slot.batch) {
      return slot;
    }
  }
  return {};
}

/// The next batch on the device; also starts as much of the following one as is possible now.
std::optional<LoaderRun::Slot> LoaderRun::take_to_device() {
  FERRITE_CHECK(!ferrite::detail::cuda::is_capturing(current_stream(device_)), CudaError,
                "data_loader",
                "a batch cannot be fetched while its device's stream is being captured into a "
                "graph; fetch it before the capture");
  std::optional<Slot> slot = ahead_ ? std::exchange(ahead_, std::nullopt) : take_batch();
  if (!slot || slot->error) return slot;
  if (!feed_->has_sent()) feed_->send(slot->batch->tensors);
  feed_->receive(slot->batch->tensors);
  if (!at_end()) look_ahead(*slot->batch);
  return slot;
}

/// Queues the copy of the batch after `current` if it is prepared, else reserves memory for it. If
/// memory runs out, both are deferred until the batch is needed.
void LoaderRun::look_ahead(const AnyBatch& current) {
  try {
    if (!is_ready()) return feed_->reserve(current.tensors);
    ahead_ = take_batch();
    if (!ahead_ || ahead_->error) return;
    feed_->send(ahead_->batch->tensors);
    for (Tensor* t : ahead_->batch->tensors) *t = {};  // its memory is freed once the copy is done
  } catch (const OutOfMemoryError&) {
  }
}

std::unique_ptr<AnyBatch> LoaderRun::next() {
  const profiler::detail::LibraryRange range(profiler::Kind::data, "next");
  const Timed timed(progress_->waited);
  if (handed_out_ && reports()) progress_->fresh = false;
  std::optional<Slot> slot = feed_ ? take_to_device() : take_batch();
  if (!slot) {
    if (reports()) {
      progress_->epoch = epoch_ + 1;
      progress_->start = progress_->position = 0;
      progress_->fresh = true;
    }
    return {};
  }
  if (slot->error) std::rethrow_exception(std::move(slot->error));
  handed_out_ = true;
  position_ += slot->samples;
  if (reports()) progress_->position = position_;
  return std::move(slot->batch);
}

void LoaderRun::take_back() {
  if (reports() && progress_->fresh) progress_->position = start_;
}

}  // namespace ferrite::data::impl
