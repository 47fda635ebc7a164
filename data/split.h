// Parts of a data set: for validation, and for cross-validation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/data/dataset.h"

namespace ferrite::data {

namespace impl {

/// A permutation of 0..size-1, cut into parts of these lengths (ValueError unless their sum is
/// size), or fractions (which sum up to 1; what is left after rounding down goes to the first
/// parts, one each).
using Parts = std::vector<std::vector<std::int64_t>>;
Parts split_indices(std::int64_t size, std::span<const std::int64_t> lengths,
                    std::optional<std::uint64_t> seed);
Parts split_indices(std::int64_t size, std::span<const double> fractions,
                    std::optional<std::uint64_t> seed);

template <class T>
Parts split_indices(std::int64_t size, const T* parts, std::size_t count,
                    std::optional<std::uint64_t> seed) {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  const std::vector<Wide> wide(parts, parts + count);
  return split_indices(size, std::span<const Wide>(wide), seed);
}

}  // namespace impl

/// Random parts without overlap, by lengths or by fractions, as in torch.utils.data:
///
///   auto [train, validation] = data::random_split(set, {0.8, 0.2}, 42);
///
/// The data set is copied, or shared if it is a shared_ptr. The same seed (default:
/// default_seed()) gives the same parts. ValueError unless the lengths sum up to the size, or the
/// fractions to 1.
template <IsDataset D, class T, std::size_t N>
requires std::is_arithmetic_v<T> std::array<Subset<SampleOf<D>>, N> random_split(
    D dataset, const T (&parts)[N], std::optional<std::uint64_t> seed = {}) {
  const auto shared = impl::shared_dataset(std::move(dataset), "random_split");
  auto indices = impl::split_indices(shared->size(), parts, N, seed);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Subset<SampleOf<D>>, N>{
        Subset<SampleOf<D>>(shared, std::move(indices[I]))...};
  }
  (std::make_index_sequence<N>());
}

/// The same, with as many parts as `parts` has.
template <IsDataset D, class T>
requires std::is_arithmetic_v<T> std::vector<Subset<SampleOf<D>>> random_split(
    D dataset, const std::vector<T>& parts, std::optional<std::uint64_t> seed = {}) {
  const auto shared = impl::shared_dataset(std::move(dataset), "random_split");
  std::vector<Subset<SampleOf<D>>> subsets;
  for (auto& indices : impl::split_indices(shared->size(), parts.data(), parts.size(), seed))
    subsets.emplace_back(shared, std::move(indices));
  return subsets;
}

/// One of the rounds of cross-validation: indices in ascending order.
struct FoldSplit {
  std::vector<std::int64_t> train;       ///< the indices of the training part
  std::vector<std::int64_t> validation;  ///< the indices of the validation part
};

/// The options of k_fold().
struct KFoldOptions {
  bool shuffle = false;                    ///< folds of random indices instead of consecutive ones
  std::optional<std::uint64_t> seed = {};  ///< of the shuffle; default: default_seed()
};

/// k folds as in scikit-learn's KFold: each index is in the validation of one of them. Their sizes
/// differ by at most 1. ValueError unless 2 <= k <= size.
///
///   for (const auto& [train, validation] : data::k_fold(set.size(), 5, {.shuffle = true}))
///     data::DataLoader loader(data::Subset(set, train), {.batch_size = 64, .shuffle = true});
std::vector<FoldSplit> k_fold(std::int64_t size, std::int64_t k, const KFoldOptions& options = {});

/// The same with the classes in each fold in proportion, as in scikit-learn's StratifiedKFold.
/// `labels`: integers [N] (ShapeError). ValueError also if no class has k members.
std::vector<FoldSplit> stratified_k_fold(const Tensor& labels, std::int64_t k,
                                         const KFoldOptions& options = {});

}  // namespace ferrite::data
