// Axes: positions and labels of ticks.
#pragma once

#include <string>
#include <vector>

#include "ferrite/metrics/scale.h"

namespace ferrite::metrics {

struct Tick {
  double value;
  std::string label;
};

struct Axis {
  Scale scale = Scale::linear;
  double low = 0, high = 1;
  std::vector<Tick> ticks;  ///< ascending, within [low, high]

  /// 0 at `low`, 1 at `high`.
  double position(double value) const;
};

/// `whole`: ticks are whole numbers. `round`: the ends are ticks.
struct AxisOptions {
  Scale scale = Scale::linear;
  int ticks = 5;  ///< approximate number
  bool whole = false;
  bool round = false;
};

/// An axis for finite values from `low` to `high` (above 0 if logarithmic), with ticks at 1, 2 or 5
/// times powers of ten. Equal bounds are widened.
Axis make_axis(double low, double high, const AxisOptions& options = {});

}  // namespace ferrite::metrics
