// What to expect of more devices than there are: throughput, efficiency and communication of
// DataParallel and DistributedDataParallel from 2 to 65,536 devices and more, where one overtakes
// the other, and where more devices stop paying.
//
//   const auto profile = planning::profile_from_json(text);  // that --json wrote
//   const auto plan = planning::plan(profile, planning::cluster("nvlink3", "infiniband-hdr", 8, 8),
//                                    {.devices = planning::powers_of_two(65536)});
//   fmt::print("{}", plan.table());
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ferrite/examples/compare_parallel/planning/failures.h"
#include "ferrite/examples/compare_parallel/planning/step.h"

namespace ferrite::planning {

/// What stays the same with more devices: the batch of a device, or that of all together.
enum class Scaling : std::uint8_t { weak, strong };

struct PlanOptions {
  std::vector<int> devices = {};
  std::vector<Strategy> strategies = {Strategy::dp, Strategy::dp_balanced, Strategy::ddp};
  Scaling scaling = Scaling::weak;
  /// The batch of a step of all devices together, with strong scaling; 0: that of the profile.
  /// Numbers of devices above the number of samples are left out.
  std::int64_t global_batch = 0;
  /// The same model with another batch, for the times of batches between and beyond the two.
  /// Without it they are in proportion to the batch, which flatters small ones.
  std::optional<ModelProfile> other_batch = {};
  StepOptions step = {};
  Failures failures = {};
  /// Devices pay as long as twice as many bring this share of twice the throughput, more than once
  /// the same: 0.5 asks for 1.5 times the throughput.
  double worthwhile = 0.5;
};

struct PlanRow {
  Strategy strategy = Strategy::dp;
  int devices = 0;
  std::int64_t batch = 0;  ///< of all devices together
  StepTimes step;
  double throughput = 0;  ///< samples a second, while nothing fails
  double efficiency = 0;  ///< throughput by that of one device with its part, times the devices
  double goodput = 1;     ///< share of time that counts, with failures and checkpoints
  double checkpoint_interval_s = 0;
  double net_throughput() const { return throughput * goodput; }
};

struct Plan {
  std::string model, device, cluster;
  Scaling scaling = Scaling::weak;
  double single_step_s = 0, single_throughput = 0;  ///< of one device with the profile's batch
  std::vector<PlanRow> rows;                        ///< strategy by strategy, devices ascending

  /// The least number of devices planned from which on DDP always has the higher throughput than
  /// DataParallel (either kind); nothing where it never does or either is missing.
  std::optional<int> crossover() const;
  /// The greatest number of devices planned that still pays (PlanOptions::worthwhile), going up
  /// from the smallest; nothing where there is no such strategy.
  std::optional<int> pays_until(Strategy strategy) const;
  /// The number of devices with the highest net throughput.
  std::optional<int> best(Strategy strategy) const;
  double worthwhile = 0.5;

  const PlanRow* find(Strategy strategy, int devices) const;
  std::vector<PlanRow> of(Strategy strategy) const;

  std::string table() const;  ///< for people, with what has been found out below it
  std::string csv() const;
  std::string json() const;
};

/// 2, 4, 8, ... and `greatest` itself. ValueError for less than 1.
std::vector<int> powers_of_two(int greatest);

/// ValueError for what is out of range.
Plan plan(const ModelProfile& profile, const Cluster& cluster, const PlanOptions& options);

}  // namespace ferrite::planning
