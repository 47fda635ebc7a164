// Devices that are slower than others for a step. All devices wait for the slowest one, so a step's
// expected time is that of the maximum of n draws, which grows with n.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace ferrite::planning {

/// How many times as long a device computes, drawn anew for each device and step.
struct Stragglers {
  enum class Kind : std::uint8_t {
    none,         ///< 1
    log_normal,   ///< exp(sigma z): the median is 1, `sigma` about the relative spread
    exponential,  ///< 1 + mean e
    occasional,   ///< `factor` with `probability`, else 1
  };

  Kind kind = Kind::none;
  double sigma = 0;        ///< log_normal
  double mean = 0;         ///< exponential
  double probability = 0;  ///< occasional
  double factor = 1;       ///< occasional

  /// "none", "lognormal:0.05", "exponential:0.02", "occasional:0.001:3". ValueError for anything
  /// else.
  static Stragglers parse(std::string_view text);
  std::string str() const;
  /// ValueError for parameters out of range.
  void check() const;

  /// The value that a share `p` of all draws does not exceed; p from 0 to below 1.
  double quantile(double p) const;

  double draw(std::mt19937_64& generator) const;
  /// The greatest of n draws, in O(1): the quantile of a uniform number's n-th root.
  double draw_max(std::mt19937_64& generator, std::int64_t n) const;
};

/// log_normal with the sigma of a measurement: half of the distance between the quartiles of a
/// normal distribution is 0.6745 of its standard deviation.
Stragglers stragglers_of(double median, double spread);

/// Quantiles of the normal distribution, to 1e-9 (Acklam's approximation, refined by a step of
/// Halley's method).
double normal_quantile(double p);

}  // namespace ferrite::planning
