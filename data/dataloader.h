// DataLoader: the batches of a data set, epoch after epoch, prepared by worker threads.
//
//   data::DataLoader loader(train, {.batch_size = 256, .shuffle = true, .workers = 2});
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& [images, labels] : loader) ...
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "ferrite/core/state_dict.h"
#include "ferrite/data/dataset.h"
#include "ferrite/data/sampler.h"

namespace ferrite::data {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;    ///< a new permutation every epoch
  int workers = 0;         ///< threads that prepare batches; 0: the calling thread
  bool drop_last = false;  ///< leave out an incomplete last batch
  int prefetch = 2;        ///< batches that each worker may prepare ahead
  /// Seed of the shuffle and the random transforms; default: default_seed() at construction.
  std::optional<std::uint64_t> seed = {};
  /// Batches are in page-locked memory, from which .to(device, non_blocking) copies asynchronously;
  /// in ordinary memory if there is no CUDA device.
  bool pin_memory = false;
  /// The device of the batches: the host, or a device to which they are copied, row-major, on a
  /// stream of the loader, each while the device works on the previous one. Workers prepare them in
  /// page-locked memory; without workers the calling thread prepares one batch ahead. The current
  /// stream waits for the copy, the host does not; two batches are in device memory. Tensors that a
  /// data set returns on that device already are passed through.
  Device device = {};
  /// Replaces shuffle, e.g. a DistributedSampler.
  std::shared_ptr<const Sampler> sampler = nullptr;
};

/// Batches come in the sampler's order, and are the same for the same seed whatever the number of
/// workers. An exception of the data set is rethrown by the loop in place of the batch, and ends
/// the epoch. Leaving the loop early stops the workers. Not thread-safe.
class DataLoader {
  class Run;
  struct Progress;

 public:
  /// Copies the data set, which is cheap for those of this library; pass a large one of your own as
  /// a shared_ptr. ValueError for options that are out of range or contradictory.
  template <std::derived_from<Dataset> D>
  explicit DataLoader(D dataset, DataLoaderOptions options = {})
      : DataLoader(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))),
                   std::move(options)) {}
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});
  DataLoader(DataLoader&&) = default;
  DataLoader& operator=(DataLoader&&) = default;

  /// Single pass, move-only. The Batch is valid until the next increment; its tensors as long as
  /// they are held.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_.get(); }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.run_; }

   private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<Run> run);

    std::shared_ptr<Run> run_;  // null at the end
    std::unique_ptr<Batch> batch_;
  };

  /// Starts the next epoch, or continues the one set by load_state_dict().
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Number of batches per epoch.
  std::int64_t size() const;
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  /// The epoch that is running or was left early; after a complete one, the epoch that begin() will
  /// start.
  std::int64_t epoch() const;
  /// Total seconds that loops have spent obtaining their batches: waiting for workers, plus work
  /// done in the calling thread.
  double seconds_waited() const;
  /// Makes the next begin() start this epoch, 0 or above (ValueError).
  void set_epoch(std::int64_t epoch);

  /// Epoch, position in samples and seed. Within a loop the current batch counts as done: a run
  /// resumed from here continues with the batch after it. At the last batch the rest of the epoch
  /// is empty, so that the program's end-of-epoch work is not skipped; after the loop, the state is
  /// the next epoch.
  StateDict state_dict() const;
  /// Throws IndexError if an entry is missing, ValueError if it does not fit the data set.
  void load_state_dict(const StateDict& state);

 private:
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::shared_ptr<const Sampler> sampler_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace ferrite::data
