// Data sets: indexed samples, fetched one at a time or in batches.
//
//   struct Pair { Tensor image, mask; };
//
//   struct Cells : data::DatasetOf<Pair> {
//     std::int64_t size() const override { return 500; }
//     Pair get(std::int64_t index) const override { return {read_image(...), read_image(...)}; }
//   };
//
//   for (auto& [image, mask] : data::DataLoader(Cells(), {.batch_size = 8})) ...
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/generator_scope.h"
#include "ferrite/core/libtorch_names.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/collate.h"

namespace ferrite::data {

/// The training or the test part.
enum class Split : std::uint8_t { train, test };

/// The seed of random transforms: a sample's numbers depend on the seed, the epoch and its index,
/// never on the order or the thread in which samples are fetched.
struct Epoch {
  std::uint64_t seed = 0;   ///< the seed of the epoch's random numbers
  std::int64_t number = 0;  ///< the epoch's number
  /// How often the sample came before in this epoch, for samplers that repeat indices: each time
  /// it has other random numbers.
  std::int64_t repeat = 0;
  /// The same for each sample of a batch, in get_batch(); empty if none came before.
  std::span<const std::int64_t> repeats = {};

  /// Random numbers of this epoch and sample, the same with any number of workers.
  Generator generator(std::int64_t index) const;
  /// In get_batch(): the epoch for get_in() of the sample at this position of the batch.
  Epoch at(std::size_t position) const {
    return {seed, number, repeats.empty() ? repeat : repeats[position]};
  }
};

namespace impl {

/// While it exists, what this thread draws in a data set's own code depends on the sample alone:
/// transforms that are called without a generator draw from this one, and the host's default
/// generator, from which rand() and its like draw, has numbers of this one's seed and of `part`.
/// Afterwards that generator continues where it was.
class SampleGenerator {
 public:
  explicit SampleGenerator(Generator& generator, std::uint64_t part = 0);
  ~SampleGenerator();
  SampleGenerator(const SampleGenerator&) = delete;
  SampleGenerator& operator=(const SampleGenerator&) = delete;

 private:
  Generator* const before_;
  GeneratorScope scope_;
};

}  // namespace impl

/// Indexed samples of any type.
class AnyDataset {
 public:
  virtual ~AnyDataset() = default;
  /// The number of samples.
  virtual std::int64_t size() const = 0;

  /// libtorch's; here transforms are given to the constructor.
  template <class... Transforms>
  int map(const Transforms&...) const {
    static_assert(
        detail::no_such_name<Transforms...>,
        "give the transform to the data set's constructor: MNIST(root, split, transform)");
    return 0;
  }
};

/// Indexed samples of type S: a tensor, a struct of tensors, a tuple, a map, a vector or a nest of
/// these (data/collate.h); of any other type with a loader that is given a function to make
/// batches. Loaders call the functions from several threads at once.
template <class S>
class DatasetOf : public AnyDataset {
 public:
  /// Sample `index` of 0..size()-1; IndexError outside. Random transforms use Epoch{}. The tensors
  /// may share the data set's memory: clone them before changing them.
  virtual S get(std::int64_t index) const = 0;
  /// The same, with the random numbers of an epoch. RandomDatasetOf implements both.
  virtual S get_in(std::int64_t index, const Epoch& epoch) const {
    Generator random = epoch.generator(index);
    const impl::SampleGenerator scope(random);
    return get(index);
  }
  /// Samples at `indices`, at least one, stacked in that order. The default stacks the results of
  /// get_in(); data sets that can copy a batch at once override it.
  virtual BatchOf<S> get_batch(std::span<const std::int64_t> indices,
                               const Epoch& epoch = {}) const {
    if constexpr (impl::Stackable<S>)
      return impl::collate(get_samples(indices, epoch), indices);
    else
      return get_samples(indices, epoch);
  }

 private:
  std::vector<S> get_samples(std::span<const std::int64_t> indices, const Epoch& epoch) const {
    std::vector<S> samples;
    samples.reserve(indices.size());
    for (std::size_t n = 0; n < indices.size(); ++n)
      samples.push_back(get_in(indices[n], epoch.at(n)));
    return samples;
  }
};

/// What most data sets for classification and regression are.
using Dataset = DatasetOf<Sample>;

/// A data set whose samples are drawn, by random transforms for instance.
template <class S>
class RandomDatasetOf : public DatasetOf<S> {
 public:
  /// Sample `index`, with numbers from `random` alone: results then depend on the seed, the epoch
  /// and the index, and not on the number of workers.
  virtual S get_random(std::int64_t index, Generator& random) const = 0;

  /// The sample of this index: IndexError out of range.
  S get(std::int64_t index) const override { return get_in(index, Epoch{}); }
  S get_in(std::int64_t index, const Epoch& epoch) const override {
    Generator random = epoch.generator(index);
    const impl::SampleGenerator scope(random);
    return get_random(index, random);
  }
};
/// A data set whose samples are made with random numbers.
using RandomDataset = RandomDatasetOf<Sample>;

extern template class DatasetOf<Sample>;
extern template class RandomDatasetOf<Sample>;

/// Throws IndexError unless 0 <= index < size.
void check_index(std::int64_t index, std::int64_t size, std::string_view op);

/// The rows `indices` of a host tensor [N, ...], copied into a new one; IndexError.
Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> indices);

namespace impl {

// Only their types: the samples of a data set, or of one that is shared.
template <class S>
S sample_of(const DatasetOf<S>&);
template <class D>
auto sample_of(const std::shared_ptr<D>& dataset) -> decltype(sample_of(*dataset));

/// Row `index` of a tensor, as a view; an undefined tensor has undefined rows.
Tensor row_of(const Tensor& tensor, std::int64_t index);
/// For each of the indices, how often it came before; empty if none did.
std::vector<std::int64_t> count_repeats(std::span<const std::int64_t> indices);
/// `tensors`, dense and on the host, all with the same first size, which is returned. Undefined
/// ones are left out. ShapeError, DeviceError; ValueError if there is none.
std::int64_t make_rows(std::span<Tensor* const> tensors);

}  // namespace impl

/// A data set, or a shared_ptr to one; and the type of its samples.
template <class D>
concept IsDataset = requires(const D& d) {
  impl::sample_of(d);
};
/// The type of a data set's samples.
template <IsDataset D>
using SampleOf = decltype(impl::sample_of(std::declval<const D&>()));

namespace impl {

/// As a shared_ptr to its base: a shared_ptr as it is; a data set is copied, which is cheap for
/// those of this library. `op` is for errors: ValueError for null.
template <class Base, class D>
std::shared_ptr<const Base> shared_as(D dataset, std::string_view op) {
  if constexpr (requires { typename D::element_type; }) {
    FERRITE_CHECK(dataset != nullptr, ValueError, op, "expected a data set, got null");
    return dataset;
  } else {
    return std::make_shared<D>(std::move(dataset));
  }
}
template <IsDataset D>
std::shared_ptr<const DatasetOf<SampleOf<D>>> shared_dataset(D dataset, std::string_view op) {
  return shared_as<DatasetOf<SampleOf<D>>>(std::move(dataset), op);
}

}  // namespace impl

/// Rows of tensors: sample i is row i of each.
///
///   TensorDataset(inputs, labels)          samples (input, label), batches (inputs, labels)
///   TensorDataset(x)                       samples and batches are tensors
///   TensorDataset(a, b, c)                 tuples
///   TensorDataset(Pair{images, masks})     structs
///
/// ShapeError unless all have the same first size; DeviceError unless they are on the cpu.
template <class S>
class TensorDataset : public DatasetOf<S> {
  static_assert(std::same_as<S, Sample> || std::same_as<S, BatchOf<S>>,
                "the members of a sample have to be tensors");

 public:
  explicit TensorDataset(BatchOf<S> whole) : whole_(std::move(whole)) {
    std::vector<Tensor*> tensors;
    impl::each_tensor(whole_, [&](Tensor& t) { tensors.push_back(&t); });
    size_ = impl::make_rows(tensors);
  }
  template <class... More>
  requires(sizeof...(More) > 0 && (std::convertible_to<More, Tensor> && ...))
      TensorDataset(const Tensor& first, const More&... more)
      : TensorDataset(BatchOf<S>{first, more...}) {}

  /// The number of samples.
  std::int64_t size() const override { return size_; }
  /// The sample of this index: IndexError out of range.
  S get(std::int64_t index) const override {
    check_index(index, size_, "tensor_dataset");
    const auto row = [&](Tensor& t) { t = impl::row_of(t, index); };
    if constexpr (std::same_as<S, Sample>) {
      return {impl::row_of(whole_.inputs, index), impl::row_of(whole_.labels, index)};
    } else {
      S sample = whole_;
      impl::each_tensor(sample, row);
      return sample;
    }
  }
  BatchOf<S> get_batch(std::span<const std::int64_t> indices, const Epoch& = {}) const override {
    BatchOf<S> batch = whole_;
    impl::each_tensor(batch, [&](Tensor& t) {
      if (t.defined()) t = gather_rows(t, indices);
    });
    return batch;
  }

 private:
  BatchOf<S> whole_;
  std::int64_t size_ = 0;
};
TensorDataset(Tensor)->TensorDataset<Tensor>;
TensorDataset(Tensor, Tensor)->TensorDataset<Sample>;
template <std::same_as<Tensor>... More>
TensorDataset(Tensor, Tensor, Tensor, More...)
    -> TensorDataset<std::tuple<Tensor, Tensor, Tensor, More...>>;
template <class S>
requires(!std::same_as<S, Tensor>) TensorDataset(S)
->TensorDataset<S>;

/// The samples of another data set at chosen indices, e.g. to hold out a part for validation.
template <class S>
class Subset : public DatasetOf<S> {
 public:
  /// From a data set, which is copied, or a shared_ptr to one. IndexError if an index is outside.
  template <IsDataset D>
  Subset(D dataset, std::vector<std::int64_t> indices)
      : dataset_(impl::shared_dataset(std::move(dataset), "subset")), indices_(std::move(indices)) {
    for (const std::int64_t i : indices_) check_index(i, dataset_->size(), "subset");
    repeats_ = impl::count_repeats(indices_);
    for (const std::int64_t repeat : repeats_) copies_ = std::max(copies_, repeat + 1);
  }

  /// The indices of the samples.
  const std::vector<std::int64_t>& indices() const { return indices_; }

  /// The number of samples.
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  /// The sample of this index: IndexError out of range.
  S get(std::int64_t index) const override { return dataset_->get(original(index)); }
  S get_in(std::int64_t index, const Epoch& epoch) const override {
    const std::int64_t i = original(index);
    return dataset_->get_in(i, {epoch.seed, epoch.number, repeat_of(index, epoch.repeat)});
  }
  BatchOf<S> get_batch(std::span<const std::int64_t> indices,
                       const Epoch& epoch = {}) const override {
    std::vector<std::int64_t> originals;
    originals.reserve(indices.size());
    for (const std::int64_t i : indices) originals.push_back(original(i));
    if (repeats_.empty()) return dataset_->get_batch(originals, epoch);
    std::vector<std::int64_t> repeats;
    for (std::size_t n = 0; n < indices.size(); ++n)
      repeats.push_back(repeat_of(indices[n], epoch.at(n).repeat));
    return dataset_->get_batch(originals, {epoch.seed, epoch.number, 0, repeats});
  }

 private:
  std::int64_t original(std::int64_t index) const {
    check_index(index, size(), "subset");
    return indices_[static_cast<std::size_t>(index)];
  }
  /// How often the original of sample `index` came before, if the sample itself came `before`
  /// times.
  std::int64_t repeat_of(std::int64_t index, std::int64_t before) const {
    if (repeats_.empty()) return before;
    return before * copies_ + repeats_[static_cast<std::size_t>(index)];
  }

  std::shared_ptr<const DatasetOf<S>> dataset_;
  std::vector<std::int64_t> indices_;
  std::vector<std::int64_t> repeats_;  // of the indices; empty if all are different
  std::int64_t copies_ = 1;            // the most of one original
};
template <IsDataset D>
Subset(D, std::vector<std::int64_t>) -> Subset<SampleOf<D>>;

}  // namespace ferrite::data
