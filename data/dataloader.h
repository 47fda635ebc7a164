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
  int workers = 0;         ///< threads that prepare batches; 0: the calling thread does
  bool drop_last = false;  ///< leave out a last batch that is not full
  int prefetch = 2;        ///< batches a worker may be ahead of the caller
  /// Of the shuffle and the random transforms; default: default_seed() at construction.
  std::optional<std::uint64_t> seed = {};
  /// Batches come in page-locked memory, from which .to(device, non_blocking) copies while the host
  /// goes on; in ordinary memory where there is no CUDA device.
  bool pin_memory = false;
  /// Where batches arrive: the host, or a device that they are copied to, row-major, on a stream of
  /// the loader's own, each while the device works on the one before. Workers prepare them in
  /// page-locked memory; without workers the calling thread prepares one batch ahead. The current
  /// stream waits for the copy, the host for nothing; two batches are in the device's memory. What
  /// a data set returns on that device already is handed on.
  Device device = {};
  /// Replaces shuffle, e.g. a DistributedSampler.
  std::shared_ptr<const Sampler> sampler = nullptr;
};

/// Batches come in the sampler's order, and the same ones for the same seed whatever the number of
/// workers. What a data set throws is rethrown by the loop in place of the batch, and ends the
/// epoch. Leaving the loop early stops the workers. To be used by one thread at a time.
class DataLoader {
  class Run;
  struct Progress;

 public:
  /// Copies the data set, which is cheap for those of this library; a large one of your own is
  /// better given as a shared_ptr. ValueError for options that are out of range or contradict.
  template <std::derived_from<Dataset> D>
  explicit DataLoader(D dataset, DataLoaderOptions options = {})
      : DataLoader(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))),
                   std::move(options)) {}
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});
  DataLoader(DataLoader&&) = default;
  DataLoader& operator=(DataLoader&&) = default;

  /// Single pass, move-only. The batch is valid until the next step; its tensors as long as they
  /// are held.
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

  /// Starts the next epoch, or goes on in the one that load_state_dict() named.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Batches an epoch has.
  std::int64_t size() const;
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  /// The epoch that runs or was left early; once it is complete, the one that begin() will start.
  std::int64_t epoch() const;
  /// Seconds that loops have spent on getting their batches, in all: on waiting for workers, and on
  /// what the calling thread does itself.
  double seconds_waited() const;
  /// The next begin() starts this epoch, 0 or above (ValueError).
  void set_epoch(std::int64_t epoch);

  /// Epoch, position in samples and seed. Within a loop the batch in hand counts as done: a run
  /// resumed from here goes on with the batch after it. With the last batch in hand that rest of
  /// the epoch is empty, so that what a program does at its end is not missed; after the loop it is
  /// the next epoch.
  StateDict state_dict() const;
  /// Throws IndexError where an entry is missing, ValueError where it does not fit the data set.
  void load_state_dict(const StateDict& state);

 private:
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::shared_ptr<const Sampler> sampler_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace ferrite::data
