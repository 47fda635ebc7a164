// Samplers: the order in which an epoch visits a data set.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
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
  /// The last position of an epoch on any rank, whose state this rank may resume from.
  virtual std::int64_t max_position() const { return size(); }
  /// The indices of an epoch; a pure function of its number.
  virtual std::vector<std::int64_t> order(std::int64_t epoch) const = 0;
  /// The seed that this order depends on, if it does.
  virtual std::optional<std::uint64_t> seed() const { return {}; }

  /// Moves to the beginning of an epoch.
  void set_epoch(std::int64_t epoch);
  /// The epoch's number.
  std::int64_t epoch() const { return epoch_; }
  /// How many indices of this epoch next() has returned.
  std::int64_t position() const { return position_; }
  /// The next index; nothing at the end of the epoch.
  std::optional<std::int64_t> next();

  /// Epoch, position and, if the order depends on one, its seed: int64 scalars.
  StateDict state_dict() const;
  /// Throws IndexError if an entry is missing, ValueError if it does not fit this sampler, or its
  /// seed is another.
  void load_state_dict(const StateDict& state);

 private:
  std::int64_t epoch_ = 0, position_ = 0;
  std::optional<std::vector<std::int64_t>> order_;  // order of epoch_, computed on first use
};

/// A sampler of any kind, for options: one by value, which is copied, a shared_ptr to one, or none.
template <class Base>
class Given {
 public:
  Given() = default;
  Given(std::nullptr_t) {}
  template <std::derived_from<Base> T>
  Given(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  template <class T>
  requires std::convertible_to<const T*, const Base*> Given(std::shared_ptr<T> value)
      : value_(std::move(value)) {}

  explicit operator bool() const { return value_ != nullptr; }
  const Base* operator->() const { return value_.get(); }
  const Base& operator*() const { return *value_; }

 private:
  std::shared_ptr<const Base> value_;
};

namespace impl {

/// Where an order was left, as int64 scalars: "epoch", "position" and, if it has a seed,
/// "order_seed".
StateDict state_of_order(std::int64_t epoch, std::int64_t position,
                         std::optional<std::uint64_t> seed);
/// ValueError if the state is in the middle of an order with another seed.
void check_seed_of_order(const StateDict& state, std::optional<std::uint64_t> seed,
                         std::string_view op);

}  // namespace impl

/// The seed of manual_seed(), the default of samplers and loaders.
std::uint64_t default_seed();

/// 0, 1, ..., size - 1. ValueError below 0, as for the other samplers.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size);
  /// The number of indices in an epoch.
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t size_;
};

struct RandomSamplerOptions {
  bool replacement = false;                      ///< draw each index independently
  std::optional<std::int64_t> num_samples = {};  ///< how many indices an epoch has; default: size
  std::optional<std::uint64_t> seed = {};        ///< default: default_seed()
};

/// A new permutation every epoch, or indices drawn with replacement. With fewer num_samples, the
/// beginning of the permutation; with more, further permutations behind it, as in PyTorch.
/// ValueError for drawing from an empty set.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size, const RandomSamplerOptions& options = {});
  /// The number of indices in an epoch.
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::optional<std::uint64_t> seed() const override { return seed_; }

 private:
  std::int64_t size_, num_samples_;
  bool replacement_;
  std::uint64_t seed_;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;                 ///< draw each index independently
  std::optional<std::uint64_t> seed = {};  ///< default: default_seed()
};

/// Indices drawn with probabilities in proportion to their weights, e.g. to see rare classes as
/// often as others; num_samples of them per epoch. Without replacement no index comes twice
/// (Efraimidis, Spirakis, "Weighted random sampling with a reservoir", 2006). ValueError unless the
/// weights are finite and 0 or above, and enough of them above 0.
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                        const WeightedRandomSamplerOptions& options = {});
  /// The number of indices in an epoch.
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::optional<std::uint64_t> seed() const override { return seed_; }

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  bool replacement_;
  std::uint64_t seed_;
};

/// These indices, in a new order every epoch.
class SubsetRandomSampler : public Sampler {
 public:
  /// Seed: default_seed() unless given.
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices,
                               std::optional<std::uint64_t> seed = {});
  /// The number of indices in an epoch.
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::optional<std::uint64_t> seed() const override { return seed_; }

 private:
  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
};

struct DistributedSamplerOptions {
  /// The number of processes; that of the default process group unless given.
  std::optional<std::int64_t> num_replicas = {};
  /// Which of them this is; that of the default process group unless given.
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> world_size = {};  ///< another name of num_replicas
  bool shuffle = true;                          ///< whether each epoch has another order
  /// Seed of the order, the same on every rank. It is independent of manual_seed(), which may
  /// differ between ranks.
  std::uint64_t seed = 0;
  /// Drop the remainder of size / world_size instead of repeating the beginning.
  bool drop_last = false;
  /// Repeat the beginning if the size is not a multiple of world_size. Without it some ranks have
  /// one index less (or none) and none is repeated: for evaluation, where a padded sample would
  /// count twice (parallel/ddp/evaluation.h gathers both).
  bool pad = true;
};

/// One process's share of the samples, as in torch.utils.data.DistributedSampler: every
/// world_size-th index of one common order, starting at `rank`, the same number on every rank. The
/// order is a function of seed and epoch. A DataLoader counts epochs itself (its set_epoch()
/// selects one); set_epoch(), next() and state_dict() of a sampler are for use without a loader.
/// ValueError for a rank out of range, for drop_last together with pad = false, and without a
/// process group if one of rank and num_replicas is given without the other, or neither in a job of
/// several processes (WORLD_SIZE).
///
///   parallel::init_process_group();
///   data::DistributedSampler sampler(train.size());
class DistributedSampler : public Sampler {
 public:
  explicit DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options = {});
  /// The number of indices in an epoch.
  std::int64_t size() const override;
  /// Without padding, one above size() on some ranks.
  std::int64_t max_position() const override;
  std::vector<std::int64_t> order(std::int64_t epoch) const override;
  std::optional<std::uint64_t> seed() const override {
    return options_.shuffle ? std::optional(options_.seed) : std::nullopt;
  }

 private:
  std::int64_t size_, rank_, world_size_;
  DistributedSamplerOptions options_;
};

/// What becomes of a last batch that is not full.
enum class LastBatch : std::uint8_t { keep, drop };

/// Which indices make a batch: those of a sampler in turn, or, overridden, any.
class BatchSampler {
 public:
  /// ValueError for a batch size below 1 or no sampler.
  BatchSampler(Given<Sampler> sampler, std::int64_t batch_size, LastBatch last = LastBatch::keep);
  virtual ~BatchSampler() = default;

  /// Number of batches per epoch.
  virtual std::int64_t size() const;
  /// The batches of an epoch, none of them empty; a pure function of its number.
  virtual std::vector<std::vector<std::int64_t>> batches(std::int64_t epoch) const;
  /// The seed of the sampler, if it has one.
  virtual std::optional<std::uint64_t> seed() const;

 protected:
  /// For classes that override both functions.
  BatchSampler() = default;

 private:
  Given<Sampler> sampler_;
  std::int64_t batch_size_ = 1;
  LastBatch last_ = LastBatch::keep;
};

/// Number of batches of `batch_size` in `samples`.
std::int64_t count_batches(std::int64_t samples, std::int64_t batch_size, LastBatch last);

}  // namespace ferrite::data
