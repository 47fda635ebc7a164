// Checks of option values, with messages for invalid ones.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace examples {

struct Check {
  std::vector<std::string> names;  ///< the accepted values; if empty, `problem` decides
  /// A message about what is wrong with a text; "" if it is valid.
  std::function<std::string(const std::string&)> problem;
};

inline Check one_of(std::vector<std::string> names) { return {std::move(names), nullptr}; }

/// A number above 0, and at most `high`.
Check above_zero(double high = std::numeric_limits<double>::max());
/// A number in [low, high).
Check between(double low, double high);
Check at_least(double low);
/// An int, int64 or uint64 from `low` to `high`.
template <class T>
Check whole(T low, T high = std::numeric_limits<T>::max());

}  // namespace examples
