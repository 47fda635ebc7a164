#include "ferrite/core/closest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ferrite {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> closest_names(std::string_view name, std::vector<std::string> names,
                                       std::size_t count) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  ranked.reserve(names.size());
  for (std::string& other : names) {
    const std::size_t distance = edit_distance(name, other);
    ranked.emplace_back(distance, std::move(other));
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& r) { return r.first; });
  ranked.resize(std::min(count, ranked.size()));
  std::vector<std::string> closest;
  for (auto& [distance, other] : ranked) closest.push_back(std::move(other));
  return closest;
}

}  // namespace ferrite
