#include "ferrite/data/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ferrite/data/sampler.h"

namespace ferrite::data {

namespace {

Generator generator_of(const std::optional<std::uint64_t>& seed) {
  return Generator(seed ? *seed : default_seed());
}

/// Brings values into a random order.
void shuffle_values(std::vector<std::int64_t>& values, Generator& random) {
  std::vector<std::int64_t> order = random.permutation(static_cast<std::int64_t>(values.size()));
  for (std::int64_t& i : order) i = values[static_cast<std::size_t>(i)];
  values = std::move(order);
}

void check_folds(std::int64_t size, std::int64_t k) {
  FERRITE_CHECK(k >= 2 && k <= size, ValueError, "k_fold",
                "expected 2 to {} folds, as many as samples at most, got {}", size, k);
}

/// The folds, given that of each sample.
std::vector<FoldSplit> folds_of(const std::vector<std::int64_t>& fold_of_sample, std::int64_t k) {
  std::vector<FoldSplit> folds(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < fold_of_sample.size(); ++i)
    for (std::size_t f = 0; f < folds.size(); ++f) {
      const bool held_out = fold_of_sample[i] == static_cast<std::int64_t>(f);
      (held_out ? folds[f].validation : folds[f].train).push_back(static_cast<std::int64_t>(i));
    }
  return folds;
}

}  // namespace

namespace impl {

Parts split_indices(std::int64_t size, std::span<const std::int64_t> lengths,
                    std::optional<std::uint64_t> seed) {
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    FERRITE_CHECK(length >= 0 && length <= size - sum, ValueError, "random_split",
                  "expected lengths of 0 or more that sum up to {}, the size of the data set; "
                  "length {} does not fit",
                  size, length);
    sum += length;
  }
  FERRITE_CHECK(sum == size, ValueError, "random_split",
                "expected lengths that sum up to {}, the size of the data set, got {}", size, sum);
  const std::vector<std::int64_t> order = generator_of(seed).permutation(size);
  Parts parts;
  auto at = order.begin();
  for (const std::int64_t length : lengths) {
    parts.emplace_back(at, at + length);
    at += length;
  }
  return parts;
}

Parts split_indices(std::int64_t size, std::span<const double> fractions,
                    std::optional<std::uint64_t> seed) {
  double sum = 0;
  for (const double fraction : fractions) {
    FERRITE_CHECK(fraction >= 0 && fraction <= 1, ValueError, "random_split",
                  "expected fractions of 0 to 1, got {}", fraction);
    sum += fraction;
  }
  FERRITE_CHECK(std::abs(sum - 1) < 1e-6,  // fractions may have been floats
                ValueError, "random_split", "expected fractions that sum up to 1, got {}", sum);
  std::vector<std::int64_t> lengths;
  std::int64_t left = size;
  for (const double fraction : fractions) {
    lengths.push_back(std::min(
        static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction)), left));
    left -= lengths.back();
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return split_indices(size, std::span<const std::int64_t>(lengths), seed);
}

}  // namespace impl

std::vector<FoldSplit> k_fold(std::int64_t size, std::int64_t k, const KFoldOptions& options) {
  check_folds(size, k);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Generator random = generator_of(options.seed);
  if (options.shuffle) shuffle_values(order, random);
  std::vector<std::int64_t> fold(order.size());
  auto at = order.begin();
  for (std::int64_t f = 0; f < k; ++f) {
    const auto end = at + size / k + (f < size % k ? 1 : 0);
    for (; at != end; ++at) fold[static_cast<std::size_t>(*at)] = f;
  }
  return folds_of(fold, k);
}

std::vector<FoldSplit> stratified_k_fold(const Tensor& labels, std::int64_t k,
                                         const KFoldOptions& options) {
  FERRITE_CHECK(labels.defined() && labels.dim() == 1, ShapeError, "k_fold",
                "expected labels [N], got {}", labels.describe());
  check_folds(labels.size(0), k);
  std::vector<std::vector<std::size_t>> members;  // in the order of the classes' first samples
  std::map<std::int64_t, std::size_t> class_of;
  const std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [found, is_new] = class_of.try_emplace(values[i], members.size());
    if (is_new) members.emplace_back();
    members[found->second].push_back(i);
  }
  std::size_t largest = 0;
  for (const auto& samples : members) largest = std::max(largest, samples.size());
  FERRITE_CHECK(static_cast<std::int64_t>(largest) >= k, ValueError, "k_fold",
                "expected a class of {} members or more, one for each fold; the largest has {}", k,
                largest);

  // Dealt out in the order of their classes, so that folds differ by at most 1 sample, and by at
  // most 1 of each class. Within a class, consecutive samples are of one fold.
  Generator random = generator_of(options.seed);
  std::vector<std::int64_t> fold(values.size());
  std::int64_t dealt = 0;
  for (const auto& samples : members) {
    std::vector<std::int64_t> folds;
    for (std::size_t i = 0; i < samples.size(); ++i) folds.push_back(dealt++ % k);
    std::ranges::sort(folds);
    if (options.shuffle) shuffle_values(folds, random);
    for (std::size_t i = 0; i < samples.size(); ++i) fold[samples[i]] = folds[i];
  }
  return folds_of(fold, k);
}

}  // namespace ferrite::data
