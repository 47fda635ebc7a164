// Data sets without an index: streams, such as files that are read once from beginning to end.
//
//   struct Lines : data::IterableDatasetOf<Tensor> {
//     std::int64_t shards() const override { return std::ssize(files); }
//     Stream open(std::int64_t shard, const data::Epoch&) const override {
//       auto in = std::make_shared<std::ifstream>(files[shard]);
//       return [in]() -> std::optional<Tensor> { ... };
//     }
//   };
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "ferrite/data/dataset.h"

namespace ferrite::data {

/// Samples of type S (as in DatasetOf) in shards, each an independent stream. A loader makes each
/// batch of the samples of one shard, and takes a batch from every shard in turn, leaving out those
/// that have ended: batches are the same whatever the number of workers, which read different
/// shards at once. The last batch of each shard may be incomplete.
template <class S>
class IterableDatasetOf {
 public:
  /// Returns the next sample, or nothing at the end, after which it is not called again. Called by
  /// one thread at a time, but not always by the same.
  using Stream = std::function<std::optional<S>()>;

  virtual ~IterableDatasetOf() = default;
  /// The number of streams, 1 or more: a property of the data, not of the workers, which are of use
  /// up to that number.
  virtual std::int64_t shards() const { return 1; }
  /// Stream `shard` from its beginning. The epoch is for data sets that shuffle, and is the seed of
  /// random transforms. Loaders open several shards at once, from several threads.
  virtual Stream open(std::int64_t shard, const Epoch& epoch) const = 0;
};
using IterableDataset = IterableDatasetOf<Sample>;  ///< samples that come as streams

namespace impl {
template <class S>
S streamed_sample_of(const IterableDatasetOf<S>&);
template <class D>
auto streamed_sample_of(const std::shared_ptr<D>& dataset)
    -> decltype(streamed_sample_of(*dataset));
}  // namespace impl

/// A type that is such a data set, or a shared_ptr to one; and the type of its samples.
template <class D>
concept IsIterableDataset = requires(const D& d) {
  impl::streamed_sample_of(d);
};
/// The type of the samples.
template <IsIterableDataset D>
using StreamedSampleOf = decltype(impl::streamed_sample_of(std::declval<const D&>()));

}  // namespace ferrite::data
