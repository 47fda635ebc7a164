// What the options of programs accept, with the message for what they do not.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

namespace examples {

/// A number of the whole text that `good` accepts; `what` says which those are.
template <class T, class Good>
CLI::Validator number_that(const std::string& what, Good good) {
  const auto check = [=](const std::string& text) -> std::string {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = error == std::errc() && end == text.data() + text.size();
    return read && good(value) ? "" : "expected " + what + ", got '" + text + "'";
  };
  return CLI::Validator(check, "", "number");
}

inline CLI::Validator above_zero() {
  return number_that<double>("a number above 0",
                             [](double v) { return v > 0 && std::isfinite(v); });
}

/// In [low, high).
inline CLI::Validator between(double low, double high) {
  return number_that<double>(fmt::format("a number of {} or more and below {}", low, high),
                             [=](double v) { return v >= low && v < high; });
}

inline CLI::Validator at_least(double low) {
  return number_that<double>(fmt::format("a number of {} or more", low),
                             [=](double v) { return v >= low && std::isfinite(v); });
}

template <class T>
CLI::Validator whole(T low, T high = std::numeric_limits<T>::max()) {
  const std::string range = high == std::numeric_limits<T>::max()
                                ? fmt::format("a whole number of {} or more", low)
                                : fmt::format("a whole number from {} to {}", low, high);
  return number_that<T>(range, [=](T v) { return v >= low && v <= high; });
}

}  // namespace examples
