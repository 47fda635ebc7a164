// Several data sets, one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ferrite/data/dataset.h"

namespace ferrite::data {

/// The samples of the first data set, then those of the second, ...; all of one type. Samples of
/// equal index in different parts get different random numbers.
template <class S>
class ConcatDataset : public DatasetOf<S> {
 public:
  using Part = std::shared_ptr<const DatasetOf<S>>;  ///< one of the data sets

  /// ValueError for null.
  explicit ConcatDataset(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) {
      FERRITE_CHECK(part != nullptr, ValueError, "concat_dataset", "expected data sets, got null");
      ends_.push_back(size() + part->size());
    }
  }
  /// From data sets, which are copied, or shared_ptrs to them.
  template <IsDataset... D>
  requires(sizeof...(D) > 1) explicit ConcatDataset(D... parts)
      : ConcatDataset(
            std::vector<Part>{impl::shared_dataset(std::move(parts), "concat_dataset")...}) {}

  /// The number of samples of all data sets together.
  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  S get(std::int64_t index) const override {
    const Place at = place(index);
    return parts_[at.part]->get(at.index);
  }
  S get_in(std::int64_t index, const Epoch& epoch) const override {
    const Place at = place(index);
    return parts_[at.part]->get_in(at.index, epoch_of(at.part, epoch));
  }
  /// At once if all are of one part.
  BatchOf<S> get_batch(std::span<const std::int64_t> indices,
                       const Epoch& epoch = {}) const override {
    std::vector<std::int64_t> own;
    std::size_t part = 0;
    for (const std::int64_t i : indices) {
      const Place at = place(i);
      if (!own.empty() && at.part != part) return DatasetOf<S>::get_batch(indices, epoch);
      part = at.part;
      own.push_back(at.index);
    }
    if (own.empty()) return DatasetOf<S>::get_batch(indices, epoch);
    return parts_[part]->get_batch(own, epoch_of(part, epoch));
  }

 private:
  struct Place {
    std::size_t part;
    std::int64_t index;
  };

  Place place(std::int64_t index) const {
    check_index(index, size(), "concat_dataset");
    const auto part =
        static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {part, index - (part == 0 ? 0 : ends_[part - 1])};
  }
  /// Indices below -1 are no sample's, and not that of an epoch's order.
  static Epoch epoch_of(std::size_t part, const Epoch& epoch) {
    if (part == 0) return epoch;
    const Epoch first{epoch.seed, epoch.number};
    return {first.generator(-1 - static_cast<std::int64_t>(part)).seed(), epoch.number,
            epoch.repeat, epoch.repeats};
  }

  std::vector<Part> parts_;
  std::vector<std::int64_t> ends_;  // of the parts, in indices
};
template <IsDataset D, IsDataset... More>
ConcatDataset(D, More...) -> ConcatDataset<SampleOf<D>>;

}  // namespace ferrite::data
