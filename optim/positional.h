// Options by position: `StepLR(sgd, 30, 0.1)` is `StepLR(sgd, {.step_size = 30, .gamma = 0.1})`.
#pragma once

#include <concepts>
#include <cstdint>

namespace ferrite::optim::detail {

/// A whole number for an option of any arithmetic type, which `{}` would refuse as narrowing.
struct WholeNumber {
  std::int64_t value;
  template <class T>
  requires std::same_as<T, double> || std::same_as<T, std::int64_t>
  operator T() const { return static_cast<T>(value); }
};

template <class T>
decltype(auto) any_number(const T& value) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>)
    return WholeNumber{static_cast<std::int64_t>(value)};
  else
    return (value);
}

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

/// Whether `Options` can begin with values of these types, in this order.
template <class Options, class... Values>
concept Positional = sizeof...(Values) > 0 && requires(const Values&... values) {
  Options{any_number(values)...};
};
template <class Options, class... Values>
Options positional(const Values&... values) {
  return Options{any_number(values)...};
}

}  // namespace ferrite::optim::detail
