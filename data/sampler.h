// Samplers: the order in which an epoch visits a data set.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"

namespace ferrite::data {

/// An order for every epoch, and a position in the current one that can be saved.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Number of indices per epoch.
  virtual std::int64_t size() const = 0;
  /// The indices of an epoch; a pure function of its number.
  virtual std::vector<std::int64_t> order(std::int64_t epoch) const = 0;

  /// Moves to the beginning of an epoch.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }
  /// How many indices of this epoch next() has returned.
  std::int64_t position() const { return position_; }
  /// The next index; nothing at the end of the epoch.
  std::optional<std::int64_t> next();

  /// Epoch and position, int64 scalars.
  StateDict state_dict() const;
  /// Throws IndexError if an entry is missing, ValueError if it does not fit this sampler.
  void load_state_dict(const StateDict& state);

 private:
  std::int64_t epoch_ = 0, position_ = 0;
  std::optional<std::vector<std::int64_t>> order_;  // order of epoch_, computed on first use
};

/// The seed of manual_seed(), the default of samplers and loaders.
std::uint64_t default_seed();

/// 0, 1, ..., size - 1. ValueError below 0, as for the other samplers.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size);
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t size_;
};

struct RandomSamplerOptions {
  bool replacement = false;                 ///< draw each index independently
  std::optional<std::int64_t> num_samples;  ///< with replacement: how many to draw; default: size
  std::optional<std::uint64_t> seed;        ///< default: default_seed()
};

/// A new permutation every epoch, or indices drawn with replacement. ValueError for num_samples
/// without replacement, and for drawing from an empty set.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size, const RandomSamplerOptions& options = {});
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t size_, num_samples_;
  bool replacement_;
  std::uint64_t seed_;
};

struct DistributedSamplerOptions {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  bool shuffle = true;
  /// Drop the remainder of size / world_size instead of repeating the beginning.
  bool drop_last = false;
  /// Seed of the order, the same on every rank. It is independent of manual_seed(), which may
  /// differ between ranks.
  std::uint64_t seed = 0;
  /// Repeat the beginning if the size is not a multiple of world_size. Without it some ranks have
  /// one index less (or none) and none is repeated: for evaluation, where a padded sample would
  /// count twice (parallel/ddp/evaluation.h gathers both).
  bool pad = true;
};

/// One process's share of the samples, as in torch.utils.data.DistributedSampler: every
/// world_size-th index of one common order, starting at `rank`, the same number on every rank. The
/// order is a function of seed and epoch, which a DataLoader advances by itself (set_epoch).
/// ValueError for a rank out of range, and for drop_last together with pad = false.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options);
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t size_;
  DistributedSamplerOptions options_;
};

enum class LastBatch : std::uint8_t { keep, drop };

/// Groups the indices of a sampler.
class BatchSampler {
 public:
  /// ValueError for a batch size below 1 or a null sampler.
  BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size,
               LastBatch last = LastBatch::keep);
  template <std::derived_from<Sampler> S>
  BatchSampler(S sampler, std::int64_t batch_size, LastBatch last = LastBatch::keep)
      : BatchSampler(std::make_shared<S>(std::move(sampler)), batch_size, last) {}

  /// Number of batches per epoch.
  std::int64_t size() const;
  /// The next batch; empty at the end of the epoch.
  std::vector<std::int64_t> next();

  void set_epoch(std::int64_t epoch) { sampler_->set_epoch(epoch); }
  StateDict state_dict() const { return sampler_->state_dict(); }
  void load_state_dict(const StateDict& state) { sampler_->load_state_dict(state); }

 private:
  std::shared_ptr<Sampler> sampler_;
  std::int64_t batch_size_;
  LastBatch last_;
};

/// Number of batches of `batch_size` in `samples`.
std::int64_t count_batches(std::int64_t samples, std::int64_t batch_size, LastBatch last);

}  // namespace ferrite::data
