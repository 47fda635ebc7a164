#include "ferrite/data/epoch_plan.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ferrite::data::impl {

// ---- IndexPlan

IndexPlan::IndexPlan(IndexedBatches source, const Epoch& epoch, std::vector<std::int64_t> order,
                     std::vector<std::int64_t> repeats, std::vector<std::int64_t> bounds)
    : source_(std::move(source)),
      epoch_(epoch),
      order_(std::move(order)),
      repeats_(std::move(repeats)),
      bounds_(std::move(bounds)) {}

EpochPlan::Made IndexPlan::make(std::int64_t number) {
  const auto b = static_cast<std::size_t>(number);
  const std::int64_t begin = bounds_[b], samples = bounds_[b + 1] - begin;
  const auto part = [&](const std::vector<std::int64_t>& all) {
    return std::span(all).subspan(static_cast<std::size_t>(begin),
                                  static_cast<std::size_t>(samples));
  };
  Epoch epoch = epoch_;
  if (!repeats_.empty()) epoch.repeats = part(repeats_);
  return {source_.make(part(order_), epoch), samples};
}

// ---- StreamPlan

StreamPlan::StreamPlan(StreamedBatches source, const Epoch& epoch, const Options& options)
    : source_(std::move(source)), epoch_(epoch), options_(options), open_(source_.shards) {
  for (std::int64_t i = 0; i < source_.shards; ++i) shards_.push_back(std::make_unique<Shard>());
}

void StreamPlan::end(Shard& shard, std::int64_t number) {
  shard.ended = true;
  shard.read = nullptr;
  std::lock_guard lock(mutex_);
  last_ = std::max(last_, number);
  if (--open_ == 0) count_ = last_ + 1;
}

/// The samples of a batch, after those of the shard's batches before it were read.
StreamPart StreamPlan::read(std::int64_t number) {
  Shard& shard = *shards_[static_cast<std::size_t>(number % source_.shards)];
  std::unique_lock lock(shard.mutex);
  shard.turn.wait(lock, [&] { return shard.next == number / source_.shards; });
  StreamPart part;
  std::exception_ptr error;
  if (!shard.ended) {
    try {
      if (!shard.read) shard.read = source_.open(number % source_.shards, epoch_);
      part = shard.read(options_.batch_size);
    } catch (...) {
      error = std::current_exception();
    }
    if (error || part.samples < options_.batch_size) end(shard, number);
  }
  ++shard.next;
  shard.turn.notify_all();
  if (error) std::rethrow_exception(std::move(error));
  return part;
}

EpochPlan::Made StreamPlan::make(std::int64_t number) {
  const StreamPart part = read(number);
  if (part.samples == 0 || (options_.drop_last && part.samples < options_.batch_size)) return {};
  // Batches before this one may be incomplete, so it ends there or before.
  if (options_.skip >= (number + 1) * options_.batch_size) return {nullptr, part.samples};
  return {part.make(), part.samples};
}

}  // namespace ferrite::data::impl
