// A training step on many devices, by events: DataParallel (a parameter server on the first device)
// and DistributedDataParallel (all-reduces beside backward), as Ferrite runs them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ferrite/examples/compare_parallel/planning/all_reduce.h"
#include "ferrite/examples/compare_parallel/planning/cluster.h"
#include "ferrite/examples/compare_parallel/planning/profile.h"
#include "ferrite/examples/compare_parallel/planning/stragglers.h"

namespace ferrite::planning {

enum class Strategy : std::uint8_t {
  dp,           ///< DataParallel; outputs are gathered, the loss is the first device's
  dp_balanced,  ///< with losses that the replicas compute (DataParallelCriterion)
  ddp,          ///< DistributedDataParallel
};

inline constexpr Strategy kAllStrategies[] = {Strategy::dp, Strategy::dp_balanced, Strategy::ddp};

std::string_view to_string(Strategy strategy);
/// ValueError for an unknown name.
Strategy strategy(std::string_view name);

struct StepOptions {
  /// Options of DataParallel and DistributedDataParallel, with their meanings and defaults.
  double bucket_cap_mb = 25, first_bucket_mb = 1;
  bool overlap = true;  ///< not delay_allreduce
  bool broadcast_buffers = true;
  /// A parameter server that is asked for each layer when forward comes to it, as TensorFlow's
  /// workers do: parameters go out one by one, in the order of forward, beside it. Ferrite's and
  /// PyTorch's DataParallel send all of them first.
  bool fetch_by_layer = false;
  AllReduceOptions all_reduce = {};
  /// Measured speeds for a peer of DataParallel's first device: of a broadcast, and of a sum with
  /// its additions. Without them the cluster's links and its add_bandwidth are used.
  std::optional<LinkSpeed> measured_broadcast = {}, measured_reduce_add = {};

  Stragglers stragglers = {};
  int steps = 200;  ///< drawn, where there are stragglers
  std::uint64_t seed = 0;
  /// How many times as long a device computes when the others of its node compute too (cores that
  /// share caches and memory, power limits): measured without any communication.
  double contention = 1;
};

/// The times of a step, in seconds: means over the simulated steps.
struct StepTimes {
  double step_s = 0;
  double compute_s = 0;        ///< what a device computes, without stragglers
  double straggler_s = 0;      ///< more than that, of the slowest device
  double communication_s = 0;  ///< while anything was under way
  double exposed_s = 0;        ///< step_s - compute_s - straggler_s
  double hidden_s() const { return communication_s > exposed_s ? communication_s - exposed_s : 0; }
  double bytes_busiest = 0;  ///< sent, or received where that is more, by the device at it most
  /// The slowest first all-reduce's, where `fastest` was asked for.
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  std::size_t events = 0;
};

/// Parameters of a bucket: from `begin` to before `end` in the order of the profile.
struct BucketSpan {
  std::size_t begin, end;
  double bytes;
};
/// Buckets as parallel/ddp/bucket.h plans them: each is closed once it holds its limit. The first
/// one and the end of the last one are smaller.
std::vector<BucketSpan> plan_buckets(const ModelProfile& profile, double cap_mb, double first_mb);
/// The buckets that the strategy makes: the first one of DataParallel is never above the cap.
std::vector<BucketSpan> plan_buckets(Strategy strategy, const ModelProfile& profile,
                                     const StepOptions& options);

/// Simulates training steps. The step of one device takes the time that was measured: step_s of
/// the profile.
///
/// The model assumes that all devices compute at the same speed, except stragglers, which are slow
/// for a whole step. An all-reduce begins when the last device has the bucket; all-reduces run one
/// at a time, in order, and take the time of all_reduce_cost(), which covers all devices.
/// Simulating a step therefore costs O(parameters), whatever the number of devices.
///
/// DataParallel: the first device sends inputs and parameters to all peers at once, to peers of its
/// node over the node's links, to all others through one adapter, its own. All devices wait until
/// the last one has them. With fetch_by_layer a peer waits for the parameters of one layer at a
/// time, and the first device does not wait; forward's time is split among layers as backward's is.
/// Outputs go to the first device, and their gradients come back. All peers send a bucket at once
/// when the last one has it. So there are three kinds of devices: the first, its node's, and the
/// others. ValueError for less than 1 device and for options out of range.
StepTimes simulate_step(Strategy strategy, const ModelProfile& profile, int devices,
                        const Cluster& cluster, const StepOptions& options = {});

}  // namespace ferrite::planning
