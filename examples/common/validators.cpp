#include "ferrite/examples/common/validators.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

namespace examples {

namespace {

/// Checks that the whole text is a number that `good` accepts; `what` describes such numbers.
template <class T, class Good>
Check number_that(const std::string& what, Good good) {
  return {{}, [=](const std::string& text) -> std::string {
            T value = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            const bool read = error == std::errc() && end == text.data() + text.size();
            return read && good(value) ? "" : "expected " + what + ", got '" + text + "'";
          }};
}

}  // namespace

Check above_zero(double high) {
  const bool bounded = high < std::numeric_limits<double>::max();
  return number_that<double>(
      bounded ? fmt::format("a number above 0 and at most {}", high) : "a number above 0",
      [=](double v) { return v > 0 && v <= high; });
}

Check between(double low, double high) {
  return number_that<double>(fmt::format("a number of {} or more and below {}", low, high),
                             [=](double v) { return v >= low && v < high; });
}

Check at_least(double low) {
  return number_that<double>(fmt::format("a number of {} or more", low),
                             [=](double v) { return v >= low && std::isfinite(v); });
}

template <class T>
Check whole(T low, T high) {
  const std::string range = high == std::numeric_limits<T>::max()
                                ? fmt::format("a whole number of {} or more", low)
                                : fmt::format("a whole number from {} to {}", low, high);
  return number_that<T>(range, [=](T v) { return v >= low && v <= high; });
}
template Check whole(int, int);
template Check whole(std::int64_t, std::int64_t);
template Check whole(std::uint64_t, std::uint64_t);

}  // namespace examples
