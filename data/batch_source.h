// Batches of any type, as the loader's threads handle them: an owned value, and where in it the
// tensors are.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/data/dataset.h"
#include "ferrite/data/iterable.h"

namespace ferrite::data {

/// What a loader takes, and the type of its samples.
template <class D>
concept IsLoadable = IsDataset<D> || IsIterableDataset<D>;

namespace impl {
template <class D>
struct LoadedSample;
template <IsDataset D>
struct LoadedSample<D> : std::type_identity<SampleOf<D>> {};
template <IsIterableDataset D>
struct LoadedSample<D> : std::type_identity<StreamedSampleOf<D>> {};
}  // namespace impl
template <IsLoadable D>
using LoadedSampleOf = typename impl::LoadedSample<D>::type;

}  // namespace ferrite::data

namespace ferrite::data::impl {

struct AnyBatch {
  AnyBatch() = default;
  virtual ~AnyBatch() = default;
  AnyBatch(const AnyBatch&) = delete;
  AnyBatch& operator=(const AnyBatch&) = delete;

  std::vector<Tensor*> tensors;  // parts of the value; may be replaced
};

template <class B>
struct TypedBatch final : AnyBatch {
  explicit TypedBatch(B from) : value(std::move(from)) {
    each_tensor(value, [this](Tensor& t) { tensors.push_back(&t); });
  }
  B value;
};

/// The batches of a data set with an index.
struct IndexedBatches {
  std::shared_ptr<const AnyDataset> dataset;
  std::function<std::unique_ptr<AnyBatch>(std::span<const std::int64_t>, const Epoch&)> make;
};

/// The next samples of a stream, fewer than asked for at its end; `make` stacks them.
struct StreamPart {
  std::int64_t samples = 0;
  std::function<std::unique_ptr<AnyBatch>()> make;
};
using StreamReader = std::function<StreamPart(std::int64_t samples)>;

/// The batches of an iterable data set.
struct StreamedBatches {
  std::int64_t shards = 0;
  std::function<StreamReader(std::int64_t shard, const Epoch&)> open;
};

using BatchSource = std::variant<IndexedBatches, StreamedBatches>;

/// The result type of a function that makes a batch of samples.
template <class C, class S>
using CollatedBy = std::remove_cvref_t<std::invoke_result_t<const C&, std::vector<S>>>;

/// Stands for the data set's own batches.
struct DefaultCollate {
  template <class S>
  BatchOf<S> operator()(const std::vector<S>& samples) const {
    return default_collate(samples);
  }
};

/// For what draws once a batch: the numbers of indices that no data set is large enough to have.
inline Generator generator_of_batch(std::span<const std::int64_t> indices, const Epoch& epoch) {
  return epoch.at(0).generator(std::numeric_limits<std::int64_t>::max() - indices.front());
}

template <class S, class Collate>
BatchSource indexed_batches(std::shared_ptr<const DatasetOf<S>> dataset, Collate collate) {
  const auto& set = *dataset;
  using Indices = std::span<const std::int64_t>;
  if constexpr (std::same_as<Collate, DefaultCollate>)
    return IndexedBatches{
        std::move(dataset),
        [&set](Indices indices, const Epoch& epoch) -> std::unique_ptr<AnyBatch> {
          Generator random = generator_of_batch(indices, epoch);
          const SampleGenerator scope(random);
          return std::make_unique<TypedBatch<BatchOf<S>>>(set.get_batch(indices, epoch));
        }};
  else
    return IndexedBatches{
        std::move(dataset),
        [&set, collate = std::move(collate)](Indices indices,
                                             const Epoch& epoch) -> std::unique_ptr<AnyBatch> {
          Generator random = generator_of_batch(indices, epoch);
          const SampleGenerator scope(random);
          std::vector<S> samples;
          samples.reserve(indices.size());
          for (std::size_t n = 0; n < indices.size(); ++n)
            samples.push_back(set.get_in(indices[n], epoch.at(n)));
          return std::make_unique<TypedBatch<CollatedBy<Collate, S>>>(collate(std::move(samples)));
        }};
}

template <class S, class Collate>
BatchSource streamed_batches(std::shared_ptr<const IterableDatasetOf<S>> dataset, Collate collate) {
  const auto make = [collate = std::move(collate)](std::vector<S> samples) {
    return std::make_unique<TypedBatch<CollatedBy<Collate, S>>>(collate(std::move(samples)));
  };
  const std::int64_t shards = dataset->shards();
  return StreamedBatches{
      shards, [dataset = std::move(dataset), make](std::int64_t shard, const Epoch& epoch) {
        // Far from the indices of samples, whose numbers the stream may draw itself.
        Generator random = epoch.generator(std::numeric_limits<std::int64_t>::min() + shard);
        const SampleGenerator scope(random);
        return [next = dataset->open(shard, epoch), make, random = std::move(random),
                part = std::uint64_t{1}](std::int64_t most) mutable {
          const SampleGenerator scope(random, part++);
          auto samples = std::make_shared<std::vector<S>>();
          while (static_cast<std::int64_t>(samples->size()) < most) {
            std::optional<S> sample = next();
            if (!sample) break;
            samples->push_back(*std::move(sample));
          }
          const auto n = static_cast<std::int64_t>(samples->size());
          // Batches are made after further samples are drawn, with numbers of their own.
          return StreamPart{
              n,
              [samples, make,
               random = Generator(~random.seed() + part)]() mutable -> std::unique_ptr<AnyBatch> {
                const SampleGenerator own(random);
                return make(std::move(*samples));
              }};
        };
      }};
}

/// The batches of a data set, or of a shared_ptr to one (ValueError for null).
template <IsLoadable D, class Collate>
BatchSource batches_of(D dataset, Collate collate) {
  using S = LoadedSampleOf<D>;
  if constexpr (IsDataset<D>)
    return indexed_batches(shared_as<DatasetOf<S>>(std::move(dataset), "data_loader"),
                           std::move(collate));
  else
    return streamed_batches(shared_as<IterableDatasetOf<S>>(std::move(dataset), "data_loader"),
                            std::move(collate));
}

}  // namespace ferrite::data::impl
