// Accuracy by simple loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::test {

struct Places {
  std::vector<std::int64_t> counts;  ///< how often the sample's class had each rank
  std::int64_t total = 0;

  double top(std::int64_t k) const {
    std::int64_t hits = 0;
    for (std::size_t i = 0; i < counts.size() && static_cast<std::int64_t>(i) < k; ++i)
      hits += counts[i];
    return total ? static_cast<double>(hits) / static_cast<double>(total) : 0;
  }
};

/// For scores [N, C, ...] and classes [N, ...]; among equal scores the lower class comes first.
inline Places places(const Tensor& output, const Tensor& target, std::int64_t ignored) {
  const std::vector<double> scores = output.to_vector<double>();
  const std::vector<std::int64_t> classes = target.to_vector<std::int64_t>();
  const std::int64_t c = output.size(1), n = output.size(0);
  const std::int64_t inner = n > 0 && c > 0 ? output.numel() / (n * c) : 0;
  Places result{std::vector<std::int64_t>(static_cast<std::size_t>(c)), 0};
  for (std::int64_t i = 0; i < n * inner; ++i) {
    const std::int64_t label = classes[static_cast<std::size_t>(i)];
    if (label == ignored) continue;
    ++result.total;
    if (label < 0 || label >= c) continue;
    const auto score = [&](std::int64_t k) {
      return scores[static_cast<std::size_t>((i / inner * c + k) * inner + i % inner)];
    };
    std::size_t before = 0;
    for (std::int64_t k = 0; k < c; ++k)
      before += score(k) > score(label) || (score(k) == score(label) && k < label);
    ++result.counts[before];
  }
  return result;
}

}  // namespace ferrite::test
