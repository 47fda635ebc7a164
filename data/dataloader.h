// DataLoader: the batches of a data set, epoch after epoch, prepared by worker threads.
//
//   data::DataLoader loader(train, {.batch_size = 256, .shuffle = true, .num_workers = 2});
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& [images, labels] : loader) ...
//
// The data set says what samples are (data/dataset.h), and by that what batches are (collate.h); or
// a function of the user's makes batches of any type:
//
//   data::DataLoader loader(texts, {.batch_size = 32}, [](std::vector<Text> samples) { ... });
//   for (auto& [tokens, lengths] : loader) ...
//
// DataLoader<B> is the type of a loader whose batches are B, DataLoader<> that of one for Batch.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "ferrite/core/state_dict.h"
#include "ferrite/data/batch_source.h"
#include "ferrite/data/dataset.h"
#include "ferrite/data/iterable.h"
#include "ferrite/data/sampler.h"

namespace ferrite::data {

/// In the order of torch.utils.data.DataLoader's arguments, then Ferrite's own.
struct DataLoaderOptions {
  /// Samples in a batch.
  std::int64_t batch_size = 1;
  bool shuffle = false;  ///< a new permutation every epoch
  /// Replaces shuffle: `.sampler = DistributedSampler(...)`, or a shared_ptr to a sampler.
  Given<Sampler> sampler = {};
  /// Replaces batch_size, shuffle, drop_last and sampler.
  Given<BatchSampler> batch_sampler = {};
  int num_workers = 0;  ///< threads that prepare batches; 0: the calling thread
  /// Batches are in page-locked memory, from which .to(device, non_blocking) copies asynchronously;
  /// in ordinary memory if there is no CUDA device.
  bool pin_memory = false;
  bool drop_last = false;   ///< leave out an incomplete last batch
  int prefetch_factor = 2;  ///< batches that each worker may prepare ahead
  /// Seed of the shuffle and the random transforms; default: default_seed() at construction.
  std::optional<std::uint64_t> seed = {};
  /// The device of the batches: the host, or a device to which their tensors are copied, row-major,
  /// on a stream of the loader, each batch while the device works on the previous one. Workers
  /// prepare them in page-locked memory; without workers the calling thread prepares one batch
  /// ahead. The current stream waits for the copy, the host does not; two batches are in device
  /// memory. Tensors that a data set returns on that device already are passed through.
  Device device = {};
};

namespace impl {
class LoaderRun;
struct LoaderProgress;
}  // namespace impl

/// What loaders have in common, whatever their batches.
class DataLoaderBase {
 public:
  /// Number of batches per epoch. ValueError for an iterable data set, of which it is not known.
  std::int64_t size() const;
  /// ValueError for an iterable data set.
  const AnyDataset& dataset() const;
  const DataLoaderOptions& options() const { return options_; }
  /// The epoch that is running or was left early; after a complete one, the epoch that begin() will
  /// start.
  std::int64_t epoch() const;
  /// Total seconds that loops have spent obtaining their batches: waiting for workers, plus work
  /// done in the calling thread.
  double seconds_waited() const;
  /// Makes the next begin() start this epoch, 0 or above (ValueError).
  void set_epoch(std::int64_t epoch);

  /// Epoch, position in samples and seed, that of a sampler too. Within a loop the current batch
  /// counts as done: a run resumed from here continues with the batch after it. At the last batch
  /// the rest of the epoch is empty, so that the program's end-of-epoch work is not skipped; after
  /// the loop, the state is the next epoch. Of iterable data sets the samples before are read
  /// again, and left out.
  StateDict state_dict() const;
  /// Throws IndexError if an entry is missing, ValueError if it does not fit the data set, or is of
  /// a sampler with another seed.
  void load_state_dict(const StateDict& state);

 protected:
  DataLoaderBase(impl::BatchSource source, DataLoaderOptions options);
  /// What the loader's iterators read from.
  std::shared_ptr<impl::LoaderRun> start();

 private:
  struct Order;

  Order order() const;
  bool is_iterable() const { return source_.index() == 1; }
  /// That of the options, or one of the data set's present size.
  Given<Sampler> sampler() const;

  impl::BatchSource source_;
  DataLoaderOptions options_;
  std::shared_ptr<impl::LoaderProgress> progress_;
};

namespace impl {

/// The part of an iterator that does not depend on the type of its batches.
class LoaderIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using difference_type = std::ptrdiff_t;

  friend bool operator==(const LoaderIterator& it, std::default_sentinel_t) { return !it.run_; }

 protected:
  explicit LoaderIterator(std::shared_ptr<LoaderRun> run);
  void advance();
  void take_back() const;

  std::shared_ptr<LoaderRun> run_;  // null at the end
  std::unique_ptr<AnyBatch> batch_;
};

}  // namespace impl

/// Makes batches of a data set's samples, in worker threads, epoch by epoch.
///
///   data::DataLoader loader(train, {.batch_size = 64, .shuffle = true, .num_workers = 2});
///   for (auto& [images, labels] : loader) train_step(images, labels);
///
/// Batches come in the sampler's order, and are the same for the same seed whatever the number of
/// workers. An exception of the data set is rethrown by the loop in place of the batch, and ends
/// the epoch. Leaving the loop early stops the workers. Not thread-safe.
template <class B = Batch>
class DataLoader : public DataLoaderBase {
 public:
  /// From a data set, iterable or not, which is copied (cheap for those of this library), or a
  /// shared_ptr to one: pass a large one of your own so. ValueError for options that are out of
  /// range or contradictory.
  template <IsLoadable D>
  requires(std::same_as<B, BatchOf<LoadedSampleOf<D>>>) explicit DataLoader(
      D dataset, DataLoaderOptions options = {})
      : DataLoaderBase(impl::batches_of(std::move(dataset), impl::DefaultCollate()),
                       std::move(options)) {
    static_assert(impl::Stackable<LoadedSampleOf<D>>,
                  "samples of this type cannot be stacked (see the table in data/collate.h): give "
                  "the loader a function that makes a batch of a std::vector of them");
  }
  /// With a function that makes a batch of a std::vector of samples. Workers call it at once, each
  /// with its own batch. All tensors that are found in the result (data/fields.h) are moved to the
  /// loader's device, or page-locked.
  template <IsLoadable D, class C>
  requires(std::same_as<B, impl::CollatedBy<C, LoadedSampleOf<D>>>)
      DataLoader(D dataset, DataLoaderOptions options, C collate)
      : DataLoaderBase(impl::batches_of(std::move(dataset), std::move(collate)),
                       std::move(options)) {}

  /// Single pass, move-only. The batch is valid until the next increment; its tensors as long as
  /// they are held.
  class Iterator : public impl::LoaderIterator {
   public:
    using value_type = B;

    B& operator*() const& { return value(); }
    B* operator->() const& { return &value(); }
    /// Called on a temporary, as in `Batch first = *loader.begin()`, it looks at the first batch
    /// without advancing the loader.
    B operator*() && {
      take_back();
      return std::move(value());
    }
    B* operator->() && {
      take_back();
      return &value();
    }
    Iterator& operator++() {
      advance();
      return *this;
    }
    void operator++(int) { advance(); }

   private:
    friend class DataLoader;
    using LoaderIterator::LoaderIterator;
    B& value() const { return static_cast<impl::TypedBatch<B>&>(*batch_).value; }
  };

  /// Starts the next epoch, or continues the one set by load_state_dict(). An epoch of which only
  /// the first batch was fetched is not used up: the next begin() starts it again.
  Iterator begin() { return Iterator(start()); }
  std::default_sentinel_t end() const { return {}; }
};

template <IsLoadable D>
DataLoader(D, DataLoaderOptions = {}) -> DataLoader<BatchOf<LoadedSampleOf<D>>>;
template <IsLoadable D, class C>
DataLoader(D, DataLoaderOptions, C) -> DataLoader<impl::CollatedBy<C, LoadedSampleOf<D>>>;

}  // namespace ferrite::data
