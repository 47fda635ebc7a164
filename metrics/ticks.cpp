#include "ferrite/metrics/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ferrite::metrics {

namespace {

/// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// With as many decimals as the step has; large values in thousands or millions.
std::string linear_label(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest >= 1e10 || largest < 1e-3) return fmt::format("{:g}", value);
  if (largest >= 1e7 && step >= 1e5) return fmt::format("{:g}M", value / 1e6);
  if (largest >= 1e4 && step >= 1e2) return fmt::format("{:g}k", value / 1e3);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

void add_linear_ticks(Axis& axis, double step) {
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  const double first = std::ceil(axis.low / step - 1e-6),
               last = std::floor(axis.high / step + 1e-6);
  for (double i = first; i <= last && axis.ticks.size() < 100; ++i)
    axis.ticks.push_back({i * step, linear_label(i * step, step, largest)});
}

Axis linear_axis(double low, double high, const AxisOptions& options) {
  Axis axis{Scale::linear, low, high, {}};
  if (!(high > low)) {
    const double space = low == 0 ? 0.5 : options.whole ? 0.5 : 0.1 * std::abs(low);
    axis.low = low - space, axis.high = high + space;
  }
  double step = round_step((axis.high - axis.low) / std::max(options.ticks, 1));
  if (options.whole) step = std::max(step, 1.0);
  if (options.round) {
    axis.low = std::floor(axis.low / step + 1e-6) * step;
    axis.high = std::ceil(axis.high / step - 1e-6) * step;
  }
  add_linear_ticks(axis, step);
  return axis;
}

Axis log_axis(double low, double high, const AxisOptions& options) {
  // A small margin at both ends, since the bounds are seldom round.
  const double space = high > low ? 0.04 * std::log10(high / low) : 0.1;
  Axis axis{Scale::log, low * std::pow(10, -space), high * std::pow(10, space), {}};
  const double decades = std::log10(axis.high / axis.low);
  const int every = std::max(1, static_cast<int>(std::ceil(decades / std::max(options.ticks, 1))));
  for (int e = static_cast<int>(std::floor(std::log10(axis.low)));
       e <= std::log10(axis.high) + 1e-9; ++e) {
    if (e % every != 0) continue;
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, e);
      if (factor > 1 && decades > options.ticks / 2.0) break;
      if (value >= axis.low * (1 - 1e-9) && value <= axis.high * (1 + 1e-9))
        axis.ticks.push_back({value, fmt::format("{:g}", value)});
    }
  }
  // Ranges within a factor of about three contain too few such numbers.
  if (axis.ticks.size() < 3 && decades < 1)
    axis.ticks = linear_axis(axis.low, axis.high, {.ticks = options.ticks}).ticks;
  return axis;
}

}  // namespace

double Axis::position(double value) const {
  if (scale == Scale::log) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

Axis make_axis(double low, double high, const AxisOptions& options) {
  return options.scale == Scale::log ? log_axis(low, high, options)
                                     : linear_axis(low, high, options);
}

}  // namespace ferrite::metrics
