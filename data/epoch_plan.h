// The batches of one epoch by number, made by several threads at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/data/batch_source.h"

namespace ferrite::data::impl {

class EpochPlan {
 public:
  /// Without a batch: samples that are left out, or none.
  struct Made {
    std::unique_ptr<AnyBatch> batch;
    std::int64_t samples = 0;
  };

  virtual ~EpochPlan() = default;
  /// Batches are numbered from 0 to below this. The end of streams becomes known as they are read;
  /// until then it is the largest number.
  virtual std::int64_t count() const = 0;
  /// Each number once; numbers are begun in their order, by any threads.
  virtual Made make(std::int64_t number) = 0;
};

/// The indices of an epoch, in batches.
class IndexPlan final : public EpochPlan {
 public:
  /// Batch b has the indices order[bounds[b]] to before order[bounds[b + 1]]. `repeats`: how often
  /// each index came before; empty if none did.
  IndexPlan(IndexedBatches source, const Epoch& epoch, std::vector<std::int64_t> order,
            std::vector<std::int64_t> repeats, std::vector<std::int64_t> bounds);

  std::int64_t count() const override { return static_cast<std::int64_t>(bounds_.size()) - 1; }
  Made make(std::int64_t number) override;

 private:
  const IndexedBatches source_;
  const Epoch epoch_;
  const std::vector<std::int64_t> order_, repeats_, bounds_;
};

/// Streams in turn: number n is batch n / shards of stream n % shards. Streams that have ended make
/// nothing.
class StreamPlan final : public EpochPlan {
 public:
  struct Options {
    std::int64_t batch_size = 1;
    bool drop_last = false;
    std::int64_t skip = 0;  ///< samples at the beginning; batches that end before are not made
  };
  StreamPlan(StreamedBatches source, const Epoch& epoch, const Options& options);

  std::int64_t count() const override { return count_; }
  Made make(std::int64_t number) override;

 private:
  struct Shard {
    std::mutex mutex;
    std::condition_variable turn;
    std::int64_t next = 0;  // the batch to be read next
    bool ended = false;
    StreamReader read;
  };

  StreamPart read(std::int64_t number);
  void end(Shard& shard, std::int64_t number);

  const StreamedBatches source_;
  const Epoch epoch_;
  const Options options_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::mutex mutex_;
  std::int64_t open_, last_ = 0;  // streams that have not ended; the last number with samples
  std::atomic<std::int64_t> count_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace ferrite::data::impl
