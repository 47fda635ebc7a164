// Whether a smaller metric is better (a loss) or a larger one (an accuracy).
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "ferrite/core/error.h"

namespace ferrite {

/// `MetricGoal::max`, or "max" where an option takes it.
class MetricGoal {
 public:
  /// min or max.
  enum Value : std::uint8_t { min, max };

  constexpr MetricGoal(Value value) : value_(value) {}
  /// "min" or "max" (ValueError).
  MetricGoal(std::string_view text) : value_(text == "max" ? max : min) {
    FERRITE_CHECK(text == "min" || text == "max", ValueError, "mode",
                  "expected \"min\" or \"max\", got \"{}\"", text);
  }
  MetricGoal(const char* text) : MetricGoal(std::string_view(text)) {}

  friend constexpr bool operator==(MetricGoal, MetricGoal) = default;
  /// What every metric is better than.
  double worst() const { return value_ == min ? INFINITY : -INFINITY; }
  /// Whether a value is better than another.
  bool is_better(double metric, double than) const {
    return value_ == min ? metric < than : metric > than;
  }

 private:
  Value value_;
};

}  // namespace ferrite
