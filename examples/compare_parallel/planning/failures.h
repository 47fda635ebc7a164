// Machines that fail: how much of its time a long run spends on work that counts, and how often it
// should write checkpoints.
#pragma once

#include <cstdint>
#include <limits>

namespace ferrite::planning {

/// Failures of devices are independent and come at a constant rate; one of them stops the whole
/// run, which then goes on from its last checkpoint. Times are in seconds.
struct Failures {
  /// Mean time between failures of one device, with its share of host, power and network. Infinite:
  /// none. For scale: Dubey et al. 2024 ("The Llama 3 herd of models", table 5) count 419
  /// unexpected interruptions of 16,384 H100 in 54 days, which is one in 50,700 hours of a device.
  double device_mtbf_s = std::numeric_limits<double>::infinity();
  double restart_s = 300;            ///< from a failure to the first step after it
  double checkpoint_s = 10;          ///< during which nothing is trained
  double checkpoint_interval_s = 0;  ///< of training between two checkpoints; 0: the best one

  /// ValueError, naming the field.
  void check() const;
  /// The mean time between failures of a run on `devices` devices.
  double mtbf_s(std::int64_t devices) const;
};

/// Young 1974 ("A first order approximation to the optimum checkpoint interval"):
/// sqrt(2 checkpoint mtbf).
double young_interval_s(double checkpoint_s, double mtbf_s);
/// Daly 2006 ("A higher order estimate of the optimum checkpoint interval for restart dumps"),
/// equation 37: sqrt(2 c M) (1 + sqrt(c / 2M) / 3 + (c / 2M) / 9) - c, and M where c is 2M or more.
double daly_interval_s(double checkpoint_s, double mtbf_s);

/// The share of time that ends up in work that counts, Daly's equation 20 turned over:
/// interval / (M exp(restart / M) (exp((interval + checkpoint) / M) - 1)). 1 without failures and
/// checkpoints.
double goodput(const Failures& failures, std::int64_t devices);
/// The interval that goodput() reckons with; infinite without failures.
double checkpoint_interval_s(const Failures& failures, std::int64_t devices);

}  // namespace ferrite::planning
